// `errand doctor`: prints one line per check, with a hint for each problem. Exits with 1 if there is a problem.
import { command } from '../command.ts';
import { paint } from '../screen.ts';

const mark = { ok: '✓', note: '·', problem: '✗' } as const;
const colour = { ok: 'green', note: 'yellow', problem: 'red' } as const;

export const doctor = command({
  summary: 'diagnose problems',
  about:
    'Checks Node, the home, the disk, the settings, the server and what each kind of job needs. Prints one line per check, with a hint for each problem. The exit code is 1 if there is a problem.',
  flags: {
    json: { type: 'boolean', help: 'print JSON for scripts' },
  },
  async run({ program, screen }, { values }) {
    const { home } = program.place(values.home === undefined ? {} : { home: values.home });
    const findings = await program.examine(home);
    if (values.json) screen.out(`${JSON.stringify({ findings })}\n`);
    else {
      for (const { state, name, text, hint } of findings) {
        const sign = paint(screen, colour[state], mark[state]);
        screen.out(`${sign} ${name}: ${text}\n${hint ? `    ${hint}\n` : ''}`);
      }
    }
    return findings.some(({ state }) => state === 'problem') ? 1 : 0;
  },
});
