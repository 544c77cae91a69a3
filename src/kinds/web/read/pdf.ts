// Converts PDF to text, page by page, with the optional package unpdf. It is loaded for the first PDF.
import { AppError } from '../../../errors.ts';

const maxPages = 2000;

interface PdfText {
  pages: string[];
  title?: string;
}

export async function readPdf(bytes: Uint8Array): Promise<PdfText> {
  const unpdf = await loadUnpdf();
  try {
    // The parser takes ownership of the buffer, so it gets a copy of the caller's bytes.
    const document = await unpdf.getDocumentProxy(new Uint8Array(bytes));
    if (document.numPages > maxPages) {
      throw new AppError(
        'tooLarge',
        `The PDF has ${document.numPages} pages; the maximum is ${maxPages}.`,
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
      hint: 'It may be damaged or password-protected.',
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
      'Reading PDFs requires the package `unpdf`, which is not installed.',
      {
        hint: 'Install it next to errand: npm install unpdf',
        cause: error,
      },
    );
  }
}
