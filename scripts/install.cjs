// Installs what is missing before `npm start` and `npm test`. Plain old JavaScript: it runs on
// whatever Node the machine has, and it is what brings Node 24 (npm package `node`) to the others.
const { spawn } = require('node:child_process');
const { statSync } = require('node:fs');
const { join } = require('node:path');

const root = join(__dirname, '..');
const folders = process.argv.includes('--test') ? [root, join(root, 'test')] : [root];

Promise.all(folders.filter(stale).map(install)).catch((error) => {
  console.error(String(error.message));
  process.exit(1);
});

/** npm writes node_modules/.package-lock.json last: older than the lock file means unfinished or outdated. */
function stale(folder) {
  const time = (file) => {
    try {
      return statSync(join(folder, file)).mtimeMs;
    } catch {
      return 0;
    }
  };
  return time('node_modules/.package-lock.json') < time('package-lock.json');
}

function install(folder) {
  console.error(`installing the packages of ${folder} (once) …`);
  return new Promise((resolve, reject) => {
    // `install` and not `ci`: registries that do not carry every platform's optional packages leave holes in the lock
    // file, which `ci` refuses; what the lock file names is still installed exactly, with its hash.
    // --include=dev: NODE_ENV=production would leave out Node 24 itself.
    const args = [
      'install',
      '--no-save',
      '--include=dev',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
    ];
    const npm = spawn('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
    npm.on('error', reject);
    npm.on('exit', (code) =>
      code === 0
        ? resolve()
        : reject(
            new Error(
              `npm install failed in ${folder} (exit ${code}). Run it there by hand to see why.`,
            ),
          ),
    );
  });
}
