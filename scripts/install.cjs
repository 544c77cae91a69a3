// Installs missing packages before `npm start` and `npm test`. Plain JavaScript without new syntax: it runs on the Node
// version of the machine and installs Node 24 (the npm package `node`) if that version is older.
// Usage: node scripts/install.cjs [folder …], relative to the repository. Default: the repository itself.
const { spawn } = require('node:child_process');
const { readdirSync, readFileSync, statSync } = require('node:fs');
const { join, resolve } = require('node:path');

const root = join(__dirname, '..');
const named = process.argv.slice(2).map((folder) => resolve(root, folder));
/** A slow connection reports its progress this often. */
const progressMs = 10000;
/** An installation that adds nothing for this long is stuck. */
const stallMs = Number(process.env.ERRAND_INSTALL_STALL_MS) || 300000;

Promise.all((named.length > 0 ? named : [root]).filter(isStale).map(install)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});

/** npm writes node_modules/.package-lock.json last: older than the lock file means unfinished or outdated. */
function isStale(folder) {
  return (
    time(join(folder, 'node_modules/.package-lock.json')) < time(join(folder, 'package-lock.json'))
  );
}

function time(file) {
  try {
    return statSync(file).mtimeMs;
  } catch {
    return 0;
  }
}

function install(folder) {
  const expected =
    Object.keys(JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')).packages)
      .length - 1;
  console.error(`Installing the packages of ${folder} (only needed once) …`);
  return new Promise((resolveInstall, reject) => {
    // --include=dev: NODE_ENV=production would leave out Node 24 itself.
    const args = ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
    const npm = spawn('npm', args, {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
      detached: true,
    });
    const start = Date.now();
    let stuck = false;
    let last = { size: -1, at: start };
    const timer = setInterval(
      () => {
        const { packages, size } = installed(join(folder, 'node_modules'));
        if (size !== last.size) last = { size, at: Date.now() };
        const elapsed = Math.round((Date.now() - start) / 1000);
        console.error(
          `Still installing ${folder}: about ${packages} of at most ${expected} packages after ${elapsed} s`,
        );
        if (Date.now() - last.at < stallMs) return;
        stuck = true;
        end(npm);
      },
      Math.min(progressMs, stallMs / 2),
    );
    // npm is in its own process group, so that a stuck one ends with everything it started: pass Ctrl-C on.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
      process.on(signal, () => {
        end(npm);
        process.exit(130);
      });
    npm.on('error', reject);
    npm.on('exit', (code) => {
      clearInterval(timer);
      if (code === 0) resolveInstall();
      else
        reject(
          new Error(
            stuck
              ? stuckMessage(folder)
              : `npm ci failed in ${folder} (exit code ${code}). Run \`npm ci\` there to see why.`,
          ),
        );
    });
  });
}

function stuckMessage(folder) {
  return `npm ci made no progress in ${folder} for ${Math.round(stallMs / 1000)} s and was stopped. The package registry may be unreachable or slow: check \`npm config get registry\`, your network and your proxy (\`npm config get https-proxy\`), then try again. ERRAND_INSTALL_STALL_MS sets the time limit.`;
}

/** Top-level packages, and a number that changes whenever something is added. */
function installed(folder) {
  let packages = 0;
  let size = 0;
  for (const name of list(folder)) {
    const nested = name.startsWith('@')
      ? list(join(folder, name)).map((inner) => join(name, inner))
      : [name];
    packages += nested.length;
    for (const path of nested)
      size += list(join(folder, path)).length + time(join(folder, path)) / 1e15;
  }
  return { packages, size };
}

function list(folder) {
  try {
    return readdirSync(folder).filter((name) => name !== '.bin');
  } catch {
    return [];
  }
}

function end(npm) {
  try {
    process.kill(-npm.pid, 'SIGKILL');
  } catch {
    // already gone
  }
}
