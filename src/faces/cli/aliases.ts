// Names that people know from other programs.
export const aliases: Readonly<Record<string, string>> = {
  ls: 'list',
  ps: 'list',
  jobs: 'list',
  log: 'logs',
  status: 'show',
  kill: 'cancel',
  delete: 'rm',
};
