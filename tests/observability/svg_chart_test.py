import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from svg_chart import Panel, number, picture, ticks

SVG = "{http://www.w3.org/2000/svg}"


class SvgChartTest(unittest.TestCase):
    def test_ticks_are_round_and_hold_all_values(self):
        self.assertEqual(ticks(0, 1), [0, 0.25, 0.5, 0.75, 1.0])
        self.assertEqual(ticks(0, 37), [0, 10, 20, 30, 40])
        self.assertEqual(ticks(-3, 3), [-4, -2, 0, 2, 4])
        self.assertEqual(ticks(0, 3 << 20, "bytes"), [0, 1 << 20, 2 << 20, 3 << 20])
        for constant in (0.0, 5.0):
            marks = ticks(constant, constant)
            self.assertLessEqual(marks[0], constant)
            self.assertGreater(marks[-1], marks[0])

    def test_numbers_carry_their_unit(self):
        self.assertEqual(number(0.251, "percentunit"), "25.1%")
        self.assertEqual(number(3 << 20, "Bps"), "3 MiB/s")
        self.assertEqual(number(0.02, "s"), "20 ms")
        self.assertEqual(number(12000, "short"), "12 k")

    def test_stacked_curves_lie_on_each_other(self):
        panel = Panel("t", "none", [("a", [(0, 1.0), (1, 2.0)]), ("b", [(0, 3.0), (1, 4.0)])], stacked=True)
        (_, lower_a, upper_a), (_, lower_b, upper_b) = panel.curves()
        self.assertEqual(lower_a, [(0, 0.0), (1, 0.0)])
        self.assertEqual(upper_a, lower_b)
        self.assertEqual(upper_b, [(0, 4.0), (1, 6.0)])

    def test_what_is_not_a_number_is_left_out(self):
        self.assertEqual(Panel("t", "none", [("a", [(0, float("nan")), (1, 2.0)]), ("b", [])]).series, [("a", [(1, 2.0)])])

    def test_a_picture_is_xml_whose_points_lie_inside(self):
        panel = Panel("<loss> & more", "none", [("a", [(10, 5.0), (20, 2.0)])])
        root = ElementTree.fromstring(picture(400, 300, [panel.draw(0, 0, 400, 300, (10, 20))]))
        self.assertIn("<loss> & more", [text.text for text in root.iter(f"{SVG}text")])
        (line,) = root.iter(f"{SVG}polyline")
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        self.assertEqual(len(points), 2)
        self.assertLess(points[0][0], points[1][0])
        self.assertLess(points[0][1], points[1][1])  # the larger value is higher up
        self.assertTrue(all(0 < x < 400 and 0 < y < 300 for x, y in points))


if __name__ == "__main__":
    unittest.main()
