// `errand logs`: what a job printed. -f follows until it is over.
import { AppError } from '../../../errors.ts';
import type { Client } from '../client.ts';
import type { Command, CommandContext } from '../cli.ts';
import { flags, wholeNumber } from '../flags.ts';

const usage = 'Usage: errand logs [-f] [--tail N] [--raw] [--attempt N] ID';
const tailBytesMax = 60_000;

export const logs: Command = async (context) => {
  const { values, positionals } = flags(
    context.args,
    {
      follow: { type: 'boolean', short: 'f' },
      tail: { type: 'string' },
      raw: { type: 'boolean' },
      json: { type: 'boolean' },
    },
    usage,
  );
  const [id] = positionals;
  if (id === undefined || positionals.length > 1) {
    throw new AppError('invalidInput', 'Name one job.', { hint: usage });
  }
  const client = await context.client();
  const tail = wholeNumber(values.tail, 'tail');
  if (values.json) {
    const { output } = await client.call('read_output', { id, bytesMax: tailBytesMax });
    context.screen.out(`${JSON.stringify(output)}\n`);
    return 0;
  }
  if (tail !== undefined) {
    const cursor = await printTail(context, client, { id, lines: tail });
    if (values.follow) await followOutput(context, client, { id, cursor });
    return 0;
  }
  // Without a limit the whole output is wanted: it is streamed from its first byte, never held.
  await followOutput(context, client, {
    id,
    cursor: '0',
    ...(values.follow ? {} : { once: true }),
  });
  return 0;
};

/** Writes output as it comes, byte for byte; ends with the job (or, with `once`, at the present end). */
export async function followOutput(
  { program }: CommandContext,
  client: Client,
  wish: { id: string; cursor?: string; once?: boolean; signal?: AbortSignal },
): Promise<void> {
  const input = {
    id: wish.id,
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
  wish: { id: string; lines: number },
): Promise<string> {
  const { output } = await client.call<{ text: string; next: number }>('read_output', {
    id: wish.id,
    mode: 'tail',
    bytesMax: tailBytesMax,
    raw: true,
  });
  const lines = output.text.replace(/\n$/, '').split('\n');
  screen.out(`${lines.slice(-wish.lines).join('\n')}\n`);
  return String(output.next);
}
