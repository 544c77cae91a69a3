// Page pictures: their folder (one per job, on the node that took them) and their size.
import { join } from 'node:path';
import type { Page } from 'playwright-core';

export interface Picture {
  path: string;
  bytes: Buffer;
  mimeType: string;
  width: number;
  height: number;
  /** Set if the picture was scaled down or cropped. */
  notice?: string;
}

export const pictureFolder = (folder: string, jobId: string): string =>
  join(folder, 'pictures', jobId);

/** Models reject pictures with a longer side. */
const maxSide = 8000;
/** Pages can be endless, and a picture below half size is unreadable. */
const minScale = 0.5;

interface PictureFit {
  /** The captured part of the page, in page pixels. */
  clip: { x: 0; y: 0; width: number; height: number };
  scale: number;
  /** Picture size. */
  width: number;
  height: number;
  notice?: string;
}

/** Limits each side to `maxSide`: scales a larger page down to at most half its size, then crops it. */
export function fitPicture(page: { width: number; height: number }): PictureFit {
  const scale = Math.max(minScale, Math.min(1, maxSide / Math.max(page.width, page.height)));
  const shown = (side: number) => Math.min(side, Math.floor(maxSide / scale));
  const clip = { x: 0, y: 0, width: shown(page.width), height: shown(page.height) } as const;
  const width = Math.min(maxSide, Math.round(clip.width * scale));
  const height = Math.min(maxSide, Math.round(clip.height * scale));
  if (scale === 1) return { clip, scale, width, height };
  const percent = Math.round(scale * 100);
  const cut = clip.height < page.height ? ` and shows only the first ${clip.height} px` : '';
  const notice = `The page is ${page.width}x${page.height} px. The picture is scaled to ${percent} %${cut}, because no side may be longer than ${maxSide} px.`;
  return { clip, scale, width, height, notice };
}

/** Uses the DevTools protocol, because Playwright's screenshot call cannot scale. */
export async function scaledPicture(
  page: Page,
  { clip, scale, format, quality }: PictureFit & { format: 'jpeg' | 'png'; quality?: number },
): Promise<Buffer> {
  const session = await page.context().newCDPSession(page);
  try {
    const { data } = await session.send('Page.captureScreenshot', {
      format,
      ...(quality === undefined ? {} : { quality }),
      captureBeyondViewport: true,
      clip: { ...clip, scale },
    });
    return Buffer.from(data, 'base64');
  } finally {
    await session.detach();
  }
}
