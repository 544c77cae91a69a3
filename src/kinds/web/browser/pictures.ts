// Where pictures of pages lie: a folder per job on the node that took them.
import { join } from 'node:path';

export const pictureFolder = (folder: string, jobId: string): string =>
  join(folder, 'pictures', jobId);
