// Finds Chrome, Chromium or Edge on this machine.
import { accessSync, constants } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { AppError } from '../../../errors.ts';

const linuxNames = [
  'google-chrome-stable',
  'google-chrome',
  'chromium',
  'chromium-browser',
  'microsoft-edge-stable',
  'microsoft-edge',
  'brave-browser',
];
const linuxFolders = [
  '/usr/bin',
  '/usr/local/bin',
  '/snap/bin',
  '/opt/google/chrome',
  '/usr/lib/chromium',
];
const macApps = ['Google Chrome', 'Chromium', 'Microsoft Edge', 'Brave Browser'];

export function browserPaths(platform: string = process.platform): string[] {
  if (platform === 'darwin') {
    return macApps.flatMap((app) =>
      ['/Applications', join(homedir(), 'Applications')].map((folder) =>
        join(folder, `${app}.app`, 'Contents', 'MacOS', app),
      ),
    );
  }
  return linuxNames.flatMap((name) => linuxFolders.map((folder) => join(folder, name)));
}

export function findBrowser(setting: string | undefined): string {
  const paths = setting === undefined ? browserPaths() : [setting];
  const found = paths.find(isProgram);
  if (found !== undefined) return found;
  throw new AppError(
    'noBrowser',
    setting === undefined
      ? 'No Chrome, Chromium or Edge was found on this machine.'
      : `The browser of the setting web.browser.path, ${setting}, is not an executable program.`,
    {
      hint: 'Install one (Debian and Ubuntu: `apt install chromium`), or set web.browser.path in config.json. Pages that work without scripts need no browser: omit `render`.',
    },
  );
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
