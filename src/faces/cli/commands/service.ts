// `errand service install|remove|print`: the server with your login, by systemd (Linux) or launchd (macOS).
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { AppError } from '../../../errors.ts';
import { command } from '../command.ts';
import type { Program } from '../program.ts';

export const service = command({
  summary: 'start the server with your login (systemd, launchd)',
  args: 'install | remove | print',
  flags: {},
  async run({ program, screen }, { positionals: [verb], usage }) {
    const unit = unitOf(program);
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
      tell(unit.stop);
      rmSync(unit.path, { force: true });
      screen.out(`removed ${unit.path}\n`);
      return 0;
    }
    throw new AppError('invalidInput', 'Say what to do with the service.', { hint: usage });
  },
});

interface Unit {
  path: string;
  text: string;
  start: string[][];
  stop: string[][];
}

export function unitOf(program: Program, platform: string = process.platform): Unit {
  const { home } = program.place({});
  if (platform === 'darwin') return launchd(program, home);
  if (platform === 'linux') return systemd(program, home);
  throw new AppError('unsupported', `There is no service for ${platform} yet.`, {
    hint: 'Start `errand serve` yourself.',
  });
}

function systemd(program: Program, home: string): Unit {
  const path = join(
    program.env.XDG_CONFIG_HOME ?? join(homedir(), '.config'),
    'systemd',
    'user',
    'errand.service',
  );
  // KillMode=process: a restart of the server must not end the jobs it started.
  const text = `[Unit]
Description=Errand, jobs for AI agents

[Service]
ExecStart=${unitWord(process.execPath)} ${unitWord(program.binPath)} serve
Environment=${unitWord(`ERRAND_HOME=${home}`)}
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
    .map((word) => `<string>${xml(word)}</string>`)
    .join('');
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>dev.errand.server</string>
<key>ProgramArguments</key><array>${words}</array>
<key>EnvironmentVariables</key><dict><key>ERRAND_HOME</key><string>${xml(home)}</string></dict>
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

/** In a unit file blanks part words, and %, $ and the backslash have meanings of their own. */
const unitWord = (text: string): string => {
  const plain = text.replaceAll('%', '%%').replaceAll('$', () => '$$');
  return /[\s"'\\;]/.test(plain) ? `"${plain.replaceAll(/["\\]/g, (sign) => `\\${sign}`)}"` : plain;
};

const xml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** A unit that cannot be started is not left behind, to be started by surprise some day. */
function install({ path, text, start }: Unit): void {
  const isNew = !existsSync(path);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode: 0o644 });
  try {
    tell(start);
  } catch (error) {
    if (isNew) rmSync(path, { force: true });
    throw error;
  }
}

function tell(commands: string[][]): void {
  for (const [program, ...args] of commands) {
    try {
      execFileSync(program!, args, { stdio: 'pipe' });
    } catch (error) {
      throw new AppError(
        'unavailable',
        `${[program, ...args].join(' ')} failed: ${(error as Error).message}`,
        {
          hint: 'Is there a user session of systemd or launchd? `errand service print` shows the unit to install by hand.',
          cause: error,
        },
      );
    }
  }
}
