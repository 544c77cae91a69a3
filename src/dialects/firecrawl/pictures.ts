// Pictures as their clients can open them: data URIs. Ours are files on the machine that took them.
import { basename } from 'node:path';
import { AppError } from '../../errors.ts';
import type { Asked } from './index.ts';
import type { Fields } from './translate.ts';

export const hasPictures = (input: Fields | undefined): boolean =>
  ((input?.formats ?? []) as string[]).includes('screenshot');

/** A page of a crawl with its picture in it. */
export async function withPicture(asked: Asked, id: string, page: Fields): Promise<Fields> {
  if (page.screenshot === undefined) return page;
  const screenshot = await pictureAt(asked, id, String(page.screenshot));
  return { ...page, screenshot };
}

/** Undefined: the file is gone, as it is when somebody tidied up. */
export async function pictureAt(
  { call }: Asked,
  id: string,
  path: string,
): Promise<string | undefined> {
  try {
    const { mimeType, data } = await call.operations.call<{ mimeType: string; data: string }>(
      'read_picture',
      { id, file: basename(path) },
      call.context,
    );
    return `data:${mimeType};base64,${data}`;
  } catch (error) {
    if (error instanceof AppError && error.code === 'notFound') return undefined;
    throw error;
  }
}
