// A small chart with readable values. The same figures are in a table for screen readers.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { duration } from '../format.ts';

interface Line {
  label: string;
  /** Name of a CSS colour property, for example `--run`. */
  color: string;
  values: (number | null)[];
}

interface ChartProps {
  title: string;
  note: string;
  steps: number[];
  lines: Line[];
  unit?: 'count' | 'seconds';
  isBars?: boolean;
}

const height = 120;

export function Chart({ title, note, steps, lines, unit = 'count', isBars = false }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const shape = `${lines.map(({ label }) => label).join()} ${isBars}`;
  useEffect(() => {
    const element = place.current!;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        optionsOf(element, lines, unit, isBars),
        dataOf(steps, lines),
        element,
      );
    };
    make();
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height }),
    );
    resized.observe(element);
    // Colours come from the style sheet and change with the colour scheme.
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', make);
    return () => {
      resized.disconnect();
      scheme.removeEventListener('change', make);
      plot.current?.destroy();
    };
  }, [shape, unit]);
  useEffect(() => plot.current?.setData(dataOf(steps, lines)), [steps, lines]);
  return (
    <figure class="chart panel">
      <figcaption>
        <strong>{title}</strong> <span class="dim">{note}</span>
        <span class="legend">
          {lines.map(({ label, color }) => (
            <span key={label}>
              <i style={{ background: `var(${color})` }} />
              {label}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={`${title}: ${note}`} />
    </figure>
  );
}

const dataOf = (steps: number[], lines: Line[]): uPlot.AlignedData => [
  steps,
  ...lines.map(({ values }) => values),
];

function optionsOf(
  element: HTMLElement,
  lines: Line[],
  unit: 'count' | 'seconds',
  isBars: boolean,
): uPlot.Options {
  const style = getComputedStyle(element);
  const color = (name: string) => resolveColor(element, name);
  const axis = {
    stroke: color('--dim'),
    font: `11px ${style.fontFamily}`,
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
  };
  const format = (value: number | null) =>
    value === null ? '–' : unit === 'seconds' ? duration(value * 1000) : String(value);
  const paths = isBars ? { paths: uPlot.paths.bars!({ size: [0.8, 24] }) } : {};
  return {
    width: element.clientWidth || 300,
    height,
    padding: [8, 6, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { show: false },
    scales: {
      y: { range: (_plot, _min, max) => [0, Math.max(max, unit === 'count' ? 4 : 0.01) * 1.1] },
    },
    axes: [
      { ...axis, size: 24, space: 60 },
      { ...axis, size: 48, space: 28, values: (_plot, splits) => splits.map(format) },
    ],
    series: [
      {},
      ...lines.map(({ label, color: name }) => ({
        label,
        stroke: color(name),
        width: 1.5,
        spanGaps: false,
        points: { show: false },
        ...(isBars ? { fill: color(name), ...paths } : {}),
      })),
    ],
    plugins: [tip(format)],
  };
}

/** Shows the values of the step under the pointer. */
function tip(format: (value: number | null) => string): uPlot.Plugin {
  const box = document.createElement('div');
  box.className = 'chart-tip';
  box.hidden = true;
  return {
    hooks: {
      init: (plot) => plot.over.append(box),
      setCursor: (plot) => {
        const { idx, left = 0 } = plot.cursor;
        box.hidden = idx === null || idx === undefined || left < 0;
        if (box.hidden) return;
        const at = new Date(plot.data[0][idx!]! * 1000);
        const values = plot.series
          .slice(1)
          .map(({ label }, i) => `${String(label)} ${format(plot.data[i + 1]![idx!] ?? null)}`);
        box.textContent = `${at.toLocaleTimeString([], { timeStyle: 'short' })} · ${values.join(' · ')}`;
        const isRight = left > plot.over.clientWidth / 2;
        box.style.left = isRight ? '' : `${left + 10}px`;
        box.style.right = isRight ? `${plot.over.clientWidth - left + 10}px` : '';
      },
    },
  };
}

/** The canvas knows no custom properties and no light-dark(). */
function resolveColor(element: HTMLElement, name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
