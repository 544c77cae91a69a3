// `errand list --watch`: repaints a table whenever it changes, until ctrl-c.
import type { CatalogEntry } from './operations-route.ts';
import type { CommandContext } from './command.ts';
import { withReconnect } from './reconnect.ts';
import { printOutput } from './print.ts';

const pollMs = 1000;
const alternateScreen = '\u001b[?1049h';
const mainScreen = '\u001b[?1049l';
const fromTop = '\u001b[H';
const clearLine = '\u001b[K';
const clearBelow = '\u001b[J';

/** Uses the alternate screen on a terminal. Otherwise prints a table or a JSON line per change. */
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
  let current = '';
  if (isLive) screen.out(alternateScreen);
  try {
    await withReconnect(context, await context.client(), async (server, progress) => {
      while (!stop.signal.aborted) {
        const { output } = await server.callNamed(entry.name, input, stop.signal);
        progress();
        const next = json ? `${JSON.stringify(output)}\n` : tableOf(context, entry, output);
        if (next !== current) screen.out(isLive ? repaint(next, program.stdout.rows) : next);
        current = next;
        await program.clock.sleep(pollMs, stop.signal);
      }
      return 0;
    });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    if (isLive) screen.out(`${mainScreen}${current}`);
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

/** Overwrites the previous table without flicker. Rows that do not fit are omitted. */
function repaint(text: string, rows = 24): string {
  const lines = text
    .trimEnd()
    .split('\n')
    .slice(0, Math.max(1, rows - 1));
  return `${fromTop}${lines.map((line) => `${line}${clearLine}\n`).join('')}${clearBelow}`;
}
