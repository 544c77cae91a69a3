// The common readers, used as documented: Mozilla's Readability and defuddle, each on linkedom.
// Installed on demand from bench/package-lock.json; an unavailable one is MISSING.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseHtml } from '../../src/kinds/web/read/parse-html.ts';
import { visibleText } from '../../src/kinds/web/read/visible.ts';

export interface Reader {
  name: string;
  /** The main text of a page; undefined if the peer is unavailable. */
  read: ((html: string, url: string) => Promise<string>) | undefined;
}

interface Linkedom {
  parseHTML(html: string): { document: unknown };
}
interface ReadabilityModule {
  Readability: new (document: unknown) => { parse(): { textContent?: string | null } | null };
}
interface DefuddleModule {
  Defuddle(document: unknown, url: string, options: object): Promise<{ content?: string }>;
}

const folder = join(import.meta.dirname, '..');

export async function peers(): Promise<Reader[]> {
  install();
  const linkedom = await optional<Linkedom>('linkedom');
  const readability = await optional<ReadabilityModule>('@mozilla/readability');
  const defuddle = await optional<DefuddleModule>('defuddle/node');
  return [
    {
      name: 'Readability 0.6',
      read:
        linkedom && readability
          ? async (html) => {
              const { document } = linkedom.parseHTML(html);
              const article = new readability.Readability(document).parse();
              return article?.textContent ?? '';
            }
          : undefined,
    },
    {
      name: 'defuddle 0.19',
      read:
        linkedom && defuddle
          ? // Its asynchronous extractors call third parties over the network, so they stay off.
            async (html, url) => {
              const { document } = linkedom.parseHTML(html);
              const { content = '' } = await defuddle.Defuddle(document, url, { useAsync: false });
              return visibleText(parseHtml(content));
            }
          : undefined,
    },
  ];
}

function install(): void {
  if (existsSync(join(folder, 'node_modules', 'defuddle'))) return;
  console.log('installing the peers …');
  spawnSync('npm', ['install', '--no-save', '--no-audit', '--no-fund'], {
    cwd: folder,
    stdio: 'ignore',
  });
}

async function optional<T>(name: string): Promise<T | undefined> {
  try {
    return (await import(name)) as T;
  } catch {
    return undefined;
  }
}
