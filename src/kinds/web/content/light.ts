// The cheap way: links, metadata and structured data of a page in one pass of the tokenizer,
// without a tree.
import { createHash } from 'node:crypto';
import { Parser } from 'htmlparser2';
import { countWords } from './blocks.ts';
import { HeadReader } from './head.ts';
import type { PageOptions } from './types.ts';

export interface LightPage {
  head: HeadReader;
  /** Words outside scripts and styles. */
  words: number;
  textHash: string;
}

const unread = new Set([
  'script',
  'style',
  'noscript',
  'template',
  'svg',
  'title',
  'textarea',
  'select',
]);

export function readLight(html: string, options: PageOptions, wantsImages: boolean): LightPage {
  const head = new HeadReader(options, wantsImages);
  const hash = createHash('sha256');
  let words = 0;
  let skipped = 0;
  let pending = '';
  const parser = new Parser({
    onopentag(name, attribs) {
      if (unread.has(name)) skipped++;
      head.open(name, attribs);
    },
    ontext(data) {
      head.text(data);
      if (skipped > 0) return;
      pending += data;
      if (pending.length > 8192) take();
    },
    onclosetag(name) {
      if (unread.has(name) && skipped > 0) skipped--;
      head.close(name);
      pending += ' ';
    },
  });
  const take = () => {
    const text = pending.replace(/\s+/g, ' ');
    words += countWords(text);
    hash.update(text);
    pending = '';
  };
  parser.end(html);
  take();
  return { head, words, textHash: hash.digest('hex') };
}
