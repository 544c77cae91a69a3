// A small chart with readable values. Its label summarises the figures for screen readers.
import { useEffect, useRef } from 'preact/hooks';
import './browser-language.ts';
import uPlot from 'uplot';
import { count, duration } from '../format.ts';

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
  unit?: Unit;
  isBars?: boolean;
}

const height = 116;
const daySeconds = 86_400;
/** Counts have no fractions. */
const wholeSteps = [1, 2, 5]
  .flatMap((n) => [0, 1, 2, 3, 4, 5, 6].map((e) => n * 10 ** e))
  .toSorted((a, b) => a - b);

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
        dataOf(steps, lines, isBars),
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
  useEffect(() => plot.current?.setData(dataOf(steps, lines, isBars)), [steps, lines]);
  const isEmpty = lines.every(({ values }) => values.every((value) => (value ?? 0) === 0));
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
      <div class="plot-place">
        <div
          ref={place}
          class="plot"
          role="img"
          aria-label={`${title} ${note}. ${summary(lines, unit)}`}
        />
        {isEmpty ? <p class="plot-note">Nothing in this range</p> : null}
      </div>
    </figure>
  );
}

/** An empty bar is not drawn: its edge would look like a line. */
const dataOf = (steps: number[], lines: Line[], isBars: boolean): uPlot.AlignedData => [
  steps,
  ...lines.map(({ values }) =>
    isBars ? values.map((value) => (value === 0 ? null : value)) : values,
  ),
];

type Unit = 'count' | 'seconds';

const textOf = (value: number | null, unit: Unit): string =>
  value === null ? '–' : unit === 'seconds' ? duration(value * 1000) : count(value);

function summary(lines: readonly Line[], unit: Unit): string {
  return lines
    .map(({ label, values }) => {
      const known = values.filter((value) => value !== null);
      const last = textOf(known.at(-1) ?? null, unit);
      return `${label}: last ${last}, highest ${known.length === 0 ? '–' : textOf(Math.max(...known), unit)}`;
    })
    .join('; ');
}

const hours = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const days = new Intl.DateTimeFormat(undefined, { weekday: 'short', day: 'numeric' });

function timeLabels(...[, splits, , , step]: Parameters<uPlot.Axis.DynamicValues>): string[] {
  const format = step >= daySeconds ? days : hours;
  return splits.map((at) => format.format(at * 1000));
}

/** A value without neighbours is a point: a line needs two. */
function loneValues(plot: uPlot, line: number): number[] | null {
  const values = plot.data[line]!;
  const isSet = (i: number) => values[i] !== null && values[i] !== undefined;
  const lone = [...values.keys()].filter((i) => isSet(i) && !isSet(i - 1) && !isSet(i + 1));
  return lone.length === 0 ? null : lone;
}

function optionsOf(
  element: HTMLElement,
  lines: Line[],
  unit: Unit,
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
  const format = (value: number | null) => textOf(value, unit);
  const paths = isBars ? { paths: uPlot.paths.bars!({ size: [0.8, 24] }) } : {};
  return {
    width: element.clientWidth || 300,
    height,
    padding: [8, 18, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { show: false },
    scales: {
      y: { range: (_plot, _min, max) => [0, Math.max(max, unit === 'count' ? 4 : 0.01) * 1.1] },
    },
    axes: [
      { ...axis, size: 24, space: 72, values: timeLabels },
      {
        ...axis,
        size: 46,
        space: 28,
        ...(unit === 'count' ? { incrs: wholeSteps } : {}),
        values: (_plot, splits) => splits.map(format),
      },
    ],
    series: [
      {},
      ...lines.map(({ label, color: name }) => ({
        label,
        stroke: color(name),
        width: 1.5,
        spanGaps: false,
        points: {
          show: false,
          size: 5,
          fill: color(name),
          ...(isBars ? {} : { filter: loneValues }),
        },
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
        const steps = plot.data[0];
        const at = steps[idx!]! * 1000;
        const isLong = steps.at(-1)! - steps[0]! > daySeconds;
        const day = isLong ? `${days.format(at)} ` : '';
        const values = plot.series
          .slice(1)
          .map(({ label }, i) => `${String(label)} ${format(plot.data[i + 1]![idx!] ?? null)}`);
        box.textContent = `${day}${hours.format(at)} · ${values.join(' · ')}`;
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
