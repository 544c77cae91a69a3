// Asks a yes-or-no question on the terminal.
import { once } from 'node:events';
import { AppError } from '../../errors.ts';
import type { CommandContext } from './command.ts';

/** Returns whether the user agrees. */
export async function confirm(
  { program: { stdin, stderr } }: CommandContext,
  question: string,
): Promise<boolean> {
  if (!stdin.isTTY)
    throw new AppError(
      'invalidInput',
      'This command asks before it changes anything, and stdin is not a terminal.',
      {
        hint: 'Use --yes to agree, or --dry-run to see the changes.',
      },
    );
  stderr.write(`${question} [y/N] `);
  stdin.setEncoding('utf8');
  const [line] = (await once(stdin, 'data')) as [string];
  stdin.pause();
  return /^\s*y(es)?\s*$/i.test(line);
}
