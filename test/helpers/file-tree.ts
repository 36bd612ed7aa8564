/** Creates files on the disk for tests of the file server. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Files by path: the content, `null` for an empty directory, or the target of a link. */
export type FileTree = Readonly<
  Record<string, string | Uint8Array | null | { readonly link: string }>
>;

/** Creates the files below a directory. */
export function layOut(directory: string, tree: FileTree): void {
  mkdirSync(directory, { recursive: true });
  for (const [name, content] of Object.entries(tree)) {
    const place = path.join(directory, name);
    mkdirSync(content === null ? place : path.dirname(place), { recursive: true });
    if (content === null) continue;
    if (typeof content === 'string' || content instanceof Uint8Array) writeFileSync(place, content);
    else symlinkSync(content.link, place);
  }
}
