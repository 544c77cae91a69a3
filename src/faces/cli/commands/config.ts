// `errand config show`: the settings a server of this home starts with, and where each value comes from.
import { AppError } from '../../../errors.ts';
import { command } from '../command.ts';
import { harmless } from '../print.ts';
import { dim } from '../screen.ts';

export const config = command({
  summary: 'every setting, and where its value comes from (config show)',
  about:
    'Shows the settings that a server of this home starts with, each with its value and where that comes from: a default, config.json, an environment variable or the file env. Secrets are masked. Changes in config.json take effect when the server is started again.',
  examples: [
    'errand config show',
    'errand config show --changed',
    'errand config show server.port',
  ],
  args: 'show [SETTING…]',
  flags: {
    changed: { type: 'boolean', help: 'only settings that differ from their default' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run({ program, screen }, { values, positionals: [verb, ...wanted], usage }) {
    if (verb !== 'show')
      throw new AppError('invalidInput', 'Write `errand config show`.', {
        hint: `${usage}. To change a setting, edit config.json in the home and restart the server.`,
      });
    const { home } = program.place({});
    const report = await program.settings(home);
    const isWanted = (name: string) =>
      wanted.length === 0 || wanted.some((part) => name === part || name.startsWith(`${part}.`));
    const settings = report.settings.filter(
      ({ name, source }) => isWanted(name) && !(values.changed && source === 'default'),
    );
    if (wanted.length > 0 && settings.length === 0 && !values.changed)
      throw new AppError('notFound', `There is no setting ${wanted.join(', ')}.`, {
        hint: '`errand config show` lists all of them.',
      });
    if (values.json) {
      screen.out(`${JSON.stringify({ ...report, settings })}\n`);
      return 0;
    }
    screen.out(
      `home    ${harmless(report.home)}\nconfig  ${harmless(report.file)}${report.exists ? '' : ' (does not exist)'}\n\n`,
    );
    const width = Math.max(0, ...settings.map(({ name }) => name.length));
    for (const { name, value, source } of settings) {
      const text = `${name.padEnd(width)}  ${harmless(value)}`;
      screen.out(`${text}${dim(screen, `  (${source})`)}\n`);
    }
    if (settings.length === 0) screen.out('every setting has its default\n');
    return 0;
  },
});
