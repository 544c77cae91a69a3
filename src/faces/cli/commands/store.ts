// `errand migrate` and `errand store copy`: work on a store that no server has open.
import { AppError } from '../../../errors.ts';
import type { Command } from '../cli.ts';
import { flags } from '../flags.ts';

export const migrate: Command = async ({ args, program, screen }) => {
  const usage = 'Usage: errand migrate [--store postgres://…] [--json]';
  const { values } = flags(args, { store: { type: 'string' }, json: { type: 'boolean' } }, usage);
  const address = values.store ?? program.env.ERRAND_STORE;
  if (address === undefined)
    throw new AppError('invalidInput', 'Name the store with --store or ERRAND_STORE.', {
      hint: usage,
    });
  const applied = await program.migrate(address);
  if (values.json) screen.out(`${JSON.stringify({ applied })}\n`);
  else screen.out(applied.length > 0 ? `applied ${applied.join(', ')}\n` : 'nothing to do\n');
  return 0;
};

export const store: Command = async ({ args, program, screen }) => {
  const usage =
    'Usage: errand store copy --from sqlite:HOME|postgres://… --to sqlite:HOME|postgres://… [--json]';
  const { values, positionals } = flags(
    args,
    { from: { type: 'string' }, to: { type: 'string' }, json: { type: 'boolean' } },
    usage,
  );
  const { from, to } = values;
  if (positionals[0] !== 'copy' || from === undefined || to === undefined)
    throw new AppError('invalidInput', 'Name both stores.', { hint: usage });
  const report = await program.copyStore(from, to);
  if (values.json) {
    screen.out(`${JSON.stringify(report)}\n`);
    return 0;
  }
  for (const { name, rows } of report.tables) if (rows > 0) screen.out(`${name}: ${rows} rows\n`);
  screen.out(`${report.waiting} waiting, ${report.held} running; every row was compared\n`);
  return 0;
};
