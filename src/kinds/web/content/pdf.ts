// PDF to text, page by page, through the optional package unpdf, loaded at the first PDF.
import { AppError } from '../../../errors.ts';

const pagesMax = 2000;

export interface PdfText {
  pages: string[];
  title?: string;
}

export async function readPdf(bytes: Uint8Array): Promise<PdfText> {
  const unpdf = await loadUnpdf();
  try {
    // The parser takes the buffer over; the caller's bytes stay the caller's.
    const document = await unpdf.getDocumentProxy(new Uint8Array(bytes));
    if (document.numPages > pagesMax) {
      throw new AppError(
        'tooLarge',
        `The PDF has ${document.numPages} pages; at most ${pagesMax} are read.`,
      );
    }
    const { text } = await unpdf.extractText(document, { mergePages: false });
    const { info } = await unpdf.getMeta(document);
    const title = typeof info.Title === 'string' ? info.Title.trim() : '';
    await document.cleanup();
    return { pages: text.map((page) => page.trim()), ...(title === '' ? {} : { title }) };
  } catch (error) {
    if (error instanceof AppError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new AppError('unsupported', `The PDF could not be read: ${reason}`, {
      hint: 'It may be damaged or protected by a password.',
      cause: error,
    });
  }
}

async function loadUnpdf(): Promise<typeof import('unpdf')> {
  try {
    return await import('unpdf');
  } catch (error) {
    throw new AppError(
      'unsupported',
      'Reading a PDF needs the package `unpdf`, which is not installed.',
      {
        hint: 'Install it beside errand: npm install unpdf',
        cause: error,
      },
    );
  }
}
