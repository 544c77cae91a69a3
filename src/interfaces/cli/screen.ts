// The output of a command: streams, terminal width and colours.
import { styleText } from 'node:util';
import type { Program } from './program.ts';

export interface Screen {
  out(text: string): void;
  err(text: string): void;
  /** Width of the terminal; undefined when stdout is not a terminal. */
  columns: number | undefined;
  colour: boolean;
  /** Current time, to compute ages. */
  now(): number;
}

export type Style = Parameters<typeof styleText>[0];

/** For terminals that report a width of 0. */
const defaultColumns = 80;

export function createScreen({ stdout, stderr, env, clock }: Program): Screen {
  return {
    out: (text) => void stdout.write(text),
    err: (text) => void stderr.write(text),
    columns: stdout.isTTY ? stdout.columns || defaultColumns : undefined,
    colour: hasColour(env, stdout.isTTY === true),
    now: () => clock.now(),
  };
}

/** FORCE_COLOR takes precedence over NO_COLOR. Otherwise colours are used on terminals that support them. */
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
