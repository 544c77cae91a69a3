// `errand list --watch`: a table that is shown again whenever it changes, until ctrl-c.
import type { CatalogEntry } from './bridge.ts';
import type { CommandContext } from './command.ts';
import { throughRestarts } from './patience.ts';
import { printOutput } from './print.ts';

const pollMs = 1000;
const alternateScreen = '\u001b[?1049h';
const mainScreen = '\u001b[?1049l';
const fromTop = '\u001b[H';
const clearLine = '\u001b[K';
const clearBelow = '\u001b[J';

/** On a terminal on a screen of its own; elsewhere one table (or line of JSON) after the other. */
export async function watchTable(
  context: CommandContext,
  entry: CatalogEntry,
  { input, json }: { input: Record<string, unknown>; json: boolean },
): Promise<number> {
  const { program, screen } = context;
  const stop = new AbortController();
  const leave = () => stop.abort();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, leave);
  const isLive = screen.columns !== undefined && !json;
  let shown = '';
  if (isLive) screen.out(alternateScreen);
  try {
    await throughRestarts(context, await context.client(), async (server, progress) => {
      while (!stop.signal.aborted) {
        const { output } = await server.call(entry.name, input, stop.signal);
        progress();
        const next = json ? `${JSON.stringify(output)}\n` : tableOf(context, entry, output);
        if (next !== shown) screen.out(isLive ? repainted(next, program.stdout.rows) : next);
        shown = next;
        await program.clock.sleep(pollMs, stop.signal);
      }
      return 0;
    });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    if (isLive) screen.out(`${mainScreen}${shown}`);
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, leave);
  }
  return 0;
}

function tableOf(
  { screen, program }: CommandContext,
  entry: CatalogEntry,
  output: unknown,
): string {
  let text = '';
  const { columns } = program.stdout;
  const page = {
    ...screen,
    // The window may have been resized.
    columns: screen.columns === undefined ? undefined : columns || screen.columns,
    out: (part: string) => void (text += part),
    err: () => {},
  };
  printOutput(page, entry, output, {});
  return text;
}

/** Over what was there, without a flicker; what does not fit is left out. */
function repainted(text: string, rows = 24): string {
  const lines = text
    .trimEnd()
    .split('\n')
    .slice(0, Math.max(1, rows - 1));
  return `${fromTop}${lines.map((line) => `${line}${clearLine}\n`).join('')}${clearBelow}`;
}
