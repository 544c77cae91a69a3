// Writes a folder as a zip file: deflate, no encryption, no zip64. Enough for a bundle of a few thousand files.
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';

const maxFiles = 65_535;
/** 1980-01-01, so that equal contents are equal bytes. */
const date = 0x21;
const utf8Names = 0x800;
const deflated = 8;
const version = 20;
const unix = 3;

export function zipFolder(folder: string): Buffer {
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
    .toSorted();
  if (paths.length > maxFiles) throw new Error(`${paths.length} files do not fit in a zip file.`);
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const path of paths) {
    const bytes = readFileSync(join(folder, path));
    const packed = deflateRawSync(bytes);
    const name = Buffer.from(path);
    const facts = (header: Buffer, at: number) => {
      header.writeUInt16LE(version, at);
      header.writeUInt16LE(utf8Names, at + 2);
      header.writeUInt16LE(deflated, at + 4);
      header.writeUInt16LE(date, at + 8);
      header.writeUInt32LE(crc32(bytes), at + 10);
      header.writeUInt32LE(packed.length, at + 14);
      header.writeUInt32LE(bytes.length, at + 18);
      header.writeUInt16LE(name.length, at + 22);
    };
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    facts(local, 4);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50, 0);
    central.writeUInt16LE((unix << 8) | version, 4);
    facts(central, 6);
    central.writeUInt32LE((statSync(join(folder, path)).mode << 16) >>> 0, 38);
    central.writeUInt32LE(offset, 42);
    parts.push(local, name, packed);
    directory.push(central, name);
    offset += local.length + name.length + packed.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(paths.length, 8);
  end.writeUInt16LE(paths.length, 10);
  end.writeUInt32LE(list.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, list, end]);
}
