// `errand service install|remove|print`: starts the server when the user logs in, with systemd (Linux) or launchd (macOS).
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { AppError } from '../../../errors.ts';
import { command } from '../command.ts';
import type { Program } from '../program.ts';

export const service = command({
  summary: 'start the server when you log in (systemd, launchd)',
  about:
    'Installs the server as a systemd user unit (Linux) or a launchd agent (macOS), removes it, or prints the unit.',
  examples: ['errand service install', 'errand service print'],
  args: 'install | remove | print',
  flags: {},
  async run({ program, screen }, { positionals: [verb], usage }) {
    const unit = serviceUnit(program);
    if (verb === 'print') {
      screen.out(unit.text);
      return 0;
    }
    if (verb === 'install') {
      install(unit);
      screen.out(`wrote ${unit.path} and started it\n`);
      return 0;
    }
    if (verb === 'remove') {
      runCommands(unit.stop);
      rmSync(unit.path, { force: true });
      screen.out(`removed ${unit.path}\n`);
      return 0;
    }
    throw new AppError('invalidInput', 'A subcommand is required: install, remove or print.', {
      hint: usage,
    });
  },
});

interface Unit {
  path: string;
  text: string;
  start: string[][];
  stop: string[][];
}

export function serviceUnit(program: Program, platform: string = process.platform): Unit {
  const { home } = program.place({});
  if (platform === 'darwin') return launchd(program, home);
  if (platform === 'linux') return systemd(program, home);
  throw new AppError('unsupported', `Services are not supported on ${platform}.`, {
    hint: 'Run `errand serve` with the service manager of your system.',
  });
}

function systemd(program: Program, home: string): Unit {
  const path = join(
    program.env.XDG_CONFIG_HOME ?? join(homedir(), '.config'),
    'systemd',
    'user',
    'errand.service',
  );
  // KillMode=process: a server restart must not kill its jobs.
  const text = `[Unit]
Description=Errand, jobs for AI agents

[Service]
ExecStart=${quoteUnitWord(process.execPath)} ${quoteUnitWord(program.binPath)} serve
Environment=${quoteUnitWord(`ERRAND_HOME=${home}`)}
KillMode=process
Restart=on-failure

[Install]
WantedBy=default.target
`;
  return {
    path,
    text,
    start: [
      ['systemctl', '--user', 'daemon-reload'],
      ['systemctl', '--user', 'enable', '--now', 'errand.service'],
    ],
    stop: [['systemctl', '--user', 'disable', '--now', 'errand.service']],
  };
}

function launchd(program: Program, home: string): Unit {
  const path = join(homedir(), 'Library', 'LaunchAgents', 'dev.errand.server.plist');
  const words = [process.execPath, program.binPath, 'serve']
    .map((word) => `<string>${escapeXml(word)}</string>`)
    .join('');
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>dev.errand.server</string>
<key>ProgramArguments</key><array>${words}</array>
<key>EnvironmentVariables</key><dict><key>ERRAND_HOME</key><string>${escapeXml(home)}</string></dict>
<key>RunAtLoad</key><true/><key>KeepAlive</key><true/><key>AbandonProcessGroup</key><true/>
</dict></plist>
`;
  return {
    path,
    text,
    start: [['launchctl', 'load', '-w', path]],
    stop: [['launchctl', 'unload', '-w', path]],
  };
}

/** Quotes a word for a unit file, where blanks separate words and %, $ and backslashes are special. */
const quoteUnitWord = (text: string): string => {
  const plain = text.replaceAll('%', '%%').replaceAll('$', () => '$$');
  return /[\s"'\\;]/.test(plain) ? `"${plain.replaceAll(/["\\]/g, (sign) => `\\${sign}`)}"` : plain;
};

const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Removes a new unit that cannot be started, so that it does not start unexpectedly later. */
function install({ path, text, start }: Unit): void {
  const isNew = !existsSync(path);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode: 0o644 });
  try {
    runCommands(start);
  } catch (error) {
    if (isNew) rmSync(path, { force: true });
    throw error;
  }
}

function runCommands(commands: string[][]): void {
  for (const [program, ...args] of commands) {
    try {
      execFileSync(program!, args, { stdio: 'pipe' });
    } catch (error) {
      throw new AppError(
        'unavailable',
        `${[program, ...args].join(' ')} failed: ${(error as Error).message}`,
        {
          hint: 'Check that a systemd or launchd user session is running. `errand service print` prints the unit for manual installation.',
          cause: error,
        },
      );
    }
  }
}
