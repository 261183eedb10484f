#include "client/commands/completion_scripts.h"

namespace stagecoach {
namespace {

constexpr char kBash[] = R"(# bash completion for stagecoach
_stagecoach() {
  local current=${COMP_WORDS[COMP_CWORD]} candidates
  candidates=$("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=()
  if [[ $candidates == ":files" ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ -n $candidates ]]; then
    mapfile -t COMPREPLY <<< "$candidates"
  fi
}
complete -F _stagecoach stagecoach
)";

constexpr char kZsh[] = R"(#compdef stagecoach
_stagecoach() {
  local -a candidates
  candidates=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ "${candidates[1]}" == ":files" ]]; then
    _files
  elif [[ -n "${candidates[1]}" ]]; then
    compadd -- "${candidates[@]}"
  fi
}
if [[ "${funcstack[1]}" == "_stagecoach" ]]; then
  _stagecoach "$@"
else
  compdef _stagecoach stagecoach
fi
)";

constexpr char kFish[] = R"(# fish completion for stagecoach
function __stagecoach_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l candidates ($words[1] __complete -- $words[2..-1] 2>/dev/null)
    if test "$candidates[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $candidates
    end
end
complete -c stagecoach -f -a '(__stagecoach_complete)'
)";

}  // namespace

std::string CompletionScript(const std::string& shell) {
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return kBash;
}

}  // namespace stagecoach
