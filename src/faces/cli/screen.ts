// What a command prints on: how wide it is, and whether colours are seen there.
import { styleText } from 'node:util';
import type { Program } from './program.ts';

export interface Screen {
  out(text: string): void;
  err(text: string): void;
  /** Columns of the terminal; undefined when it is none. */
  columns: number | undefined;
  colour: boolean;
  /** The time, for ages. */
  now(): number;
}

export type Style = Parameters<typeof styleText>[0];

/** A terminal that does not say how wide it is says 0. */
const columnsDefault = 80;

export function screenOf({ stdout, stderr, env, clock }: Program): Screen {
  return {
    out: (text) => void stdout.write(text),
    err: (text) => void stderr.write(text),
    columns: stdout.isTTY ? stdout.columns || columnsDefault : undefined,
    colour: hasColour(env, stdout.isTTY === true),
    now: () => clock.now(),
  };
}

/** FORCE_COLOR decides, else NO_COLOR, else whether it is a terminal that has colours. */
function hasColour(env: Program['env'], isTerminal: boolean): boolean {
  const { FORCE_COLOR: force, NO_COLOR: none, TERM: term } = env;
  if (force !== undefined) return force !== '0' && force !== 'false';
  if (none !== undefined && none !== '') return false;
  return isTerminal && term !== 'dumb';
}

export const paint = ({ colour }: Pick<Screen, 'colour'>, style: Style, text: string): string =>
  colour ? styleText(style, text, { validateStream: false }) : text;

export const dim = (screen: Pick<Screen, 'colour'>, text: string): string =>
  paint(screen, 'dim', text);
