// Screenshots as data URIs, which Firecrawl's clients can open. Errand stores them as files.
import { basename } from 'node:path';
import { AppError } from '../../errors.ts';
import type { Asked } from './route.ts';
import type { Fields } from './translate.ts';
import { readPicture } from '../../kinds/web/contracts.ts';

export const hasPictures = (input: Fields | undefined): boolean =>
  ((input?.formats ?? []) as string[]).includes('screenshot');

/** A crawled page with its screenshot. */
export async function withPicture(asked: Asked, id: string, page: Fields): Promise<Fields> {
  if (page.screenshot === undefined) return page;
  const screenshot = await pictureAt(asked, id, String(page.screenshot));
  return { ...page, screenshot };
}

/** Undefined if the file was deleted. */
export async function pictureAt(
  { call }: Asked,
  id: string,
  path: string,
): Promise<string | undefined> {
  try {
    const { mimeType, data } = await call.operations.call(
      readPicture,
      { id, file: basename(path) },
      call.context,
    );
    return `data:${mimeType};base64,${data}`;
  } catch (error) {
    if (error instanceof AppError && error.code === 'notFound') return undefined;
    throw error;
  }
}
