// `errand logs`: what a job printed. -f follows until it is over.
import { AppError } from '../../../errors.ts';
import type { Client } from '../client.ts';
import { command, wholeNumber, type CommandContext } from '../command.ts';

const tailBytesMax = 60_000;

export const logs = command({
  summary: 'what a job printed; -f follows',
  args: 'ID',
  flags: {
    follow: { type: 'boolean', short: 'f', help: 'go on until the job is over' },
    tail: { type: 'string', value: 'N', help: 'only the last N lines' },
    attempt: { type: 'string', value: 'N', help: 'an earlier attempt' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run(context, { values, positionals, usage }) {
    const [id] = positionals;
    if (id === undefined || positionals.length > 1) {
      throw new AppError('invalidInput', 'Name one job.', { hint: usage });
    }
    const client = await context.client();
    const tail = wholeNumber(values.tail, 'tail');
    const attempt = wholeNumber(values.attempt, 'attempt');
    const wish = { id, ...(attempt === undefined ? {} : { attempt }) };
    if (values.json) {
      const { output } = await client.call('read_output', { ...wish, bytesMax: tailBytesMax });
      context.screen.out(`${JSON.stringify(output)}\n`);
      return 0;
    }
    if (tail !== undefined) {
      const cursor = await printTail(context, client, { ...wish, lines: tail });
      if (values.follow) await followOutput(context, client, { ...wish, cursor });
      return 0;
    }
    // Without a limit the whole output is wanted: it is streamed from its first byte, never held.
    await followOutput(context, client, {
      ...wish,
      cursor: '0',
      ...(values.follow ? {} : { once: true }),
    });
    return 0;
  },
});

/** Writes output as it comes, byte for byte; ends with the job (or, with `once`, at the present end). */
export async function followOutput(
  { program }: CommandContext,
  client: Client,
  wish: { id: string; attempt?: number; cursor?: string; once?: boolean; signal?: AbortSignal },
): Promise<void> {
  const input = {
    id: wish.id,
    ...(wish.attempt === undefined ? {} : { attempt: wish.attempt }),
    raw: true,
    lossless: true,
    ...(wish.cursor === undefined ? {} : { cursor: wish.cursor }),
    ...(wish.once ? { once: true } : {}),
  };
  for await (const item of client.follow('read_output', input, wish.signal)) {
    const { text, base64, stream } = item.data as {
      text?: string;
      base64?: string;
      stream?: string;
    };
    const bytes = base64 === undefined ? Buffer.from(text ?? '') : Buffer.from(base64, 'base64');
    const target = stream === 'stderr' ? program.stderr : program.stdout;
    if (bytes.length > 0 && !target.write(bytes))
      await new Promise((resolve) => target.once('drain', resolve));
  }
}

async function printTail(
  { screen }: CommandContext,
  client: Client,
  { lines: count, ...wish }: { id: string; attempt?: number; lines: number },
): Promise<string> {
  const { output } = await client.call<{ text: string; next: number }>('read_output', {
    ...wish,
    mode: 'tail',
    bytesMax: tailBytesMax,
    raw: true,
  });
  const lines = output.text.replace(/\n$/, '').split('\n');
  screen.out(`${lines.slice(-count).join('\n')}\n`);
  return String(output.next);
}
