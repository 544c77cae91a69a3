// Facts with their names, and numbers that stand out.
import type { ComponentChildren } from 'preact';

export type Fact = readonly [label: string, value: ComponentChildren];

export function Facts({ facts }: { facts: readonly (Fact | undefined)[] }) {
  return (
    <dl class="facts">
      {facts.map((fact) =>
        fact === undefined ? null : (
          <div key={fact[0]}>
            <dt>{fact[0]}</dt>
            <dd>{fact[1]}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

export interface Tile {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  href?: string;
  tone?: string | undefined;
}

export function Tiles({ tiles }: { tiles: readonly Tile[] }) {
  return (
    <div class="totals even">
      {tiles.map(({ label, value, note, href, tone = '' }) => {
        const inner = (
          <>
            <span>{label}</span>
            <b class={tone}>{value}</b>
            {note === undefined ? null : <small class="dim">{note}</small>}
          </>
        );
        return href === undefined ? (
          <div key={label} class="panel total">
            {inner}
          </div>
        ) : (
          <a key={label} class="panel total" href={href}>
            {inner}
          </a>
        );
      })}
    </div>
  );
}
