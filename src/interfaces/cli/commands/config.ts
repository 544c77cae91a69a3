// `errand config show`: prints the settings of a home, and where each value comes from.
import { AppError } from '../../../errors.ts';
import { command } from '../command.ts';
import { sanitize } from '../print.ts';
import { dim } from '../screen.ts';

export const config = command({
  summary: 'all settings, and where each value comes from (config show)',
  about:
    'Shows the settings that a server of this home starts with. Each setting has a value and its source: a default, config.json, an environment variable or the file env. Secrets are masked. Changes in config.json take effect after a server restart.',
  examples: [
    'errand config show',
    'errand config show --changed',
    'errand config show server.port',
  ],
  args: 'show [SETTING…]',
  flags: {
    changed: { type: 'boolean', help: 'only settings that differ from their default' },
    json: { type: 'boolean', help: 'print JSON for scripts' },
  },
  async run({ program, screen }, { values, positionals: [verb, ...wanted], usage }) {
    if (verb !== 'show')
      throw new AppError('invalidInput', 'A subcommand is required: `errand config show`.', {
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
      throw new AppError('notFound', `Unknown setting: ${wanted.join(', ')}`, {
        hint: '`errand config show` lists all settings.',
      });
    if (values.json) {
      screen.out(`${JSON.stringify({ ...report, settings })}\n`);
      return 0;
    }
    screen.out(
      `home    ${sanitize(report.home)}\nconfig  ${sanitize(report.file)}${report.exists ? '' : ' (does not exist)'}\n\n`,
    );
    const width = Math.max(0, ...settings.map(({ name }) => name.length));
    for (const { name, value, source } of settings) {
      const text = `${name.padEnd(width)}  ${sanitize(value)}`;
      screen.out(`${text}${dim(screen, `  (${source})`)}\n`);
    }
    if (settings.length === 0) screen.out('all settings have their default values\n');
    return 0;
  },
});
