// Where the dashboard is mounted. The script is in <base>/assets/, whatever path a proxy puts in front of it.
const script = document.querySelector<HTMLScriptElement>('script[data-worker]')!;

/** Ends with a slash. */
export const base = new URL('..', script.src);

const asset = (name: string | undefined): string => new URL(name ?? '', script.src).href;

export const workerUrl = asset(script.dataset.worker);
export const terminalStylesUrl = asset(script.dataset.terminalStyles);

/** The address of a path of this server (`api/jobs`). */
export const urlOf = (path: string): string => new URL(path, base).href;
