/** Checks the links between documents, in the repository and in the package. */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import test from 'ava';
import { anchorsOf, documents, relativeLinks, root } from './helpers/markdown.ts';

const inGit = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n');
const { files: packed }: { files: string[] } = JSON.parse(
  readFileSync(`${root}package.json`, 'utf8'),
);

test('every relative link of the documents leads somewhere, in git and in the tarball', (t) => {
  const links = [...documents(), 'CHANGELOG.md'].flatMap(relativeLinks);
  t.true(links.length > 100, String(links.length));
  for (const { document, link, target, anchor } of links) {
    t.true(isIn(inGit, target), `${document}: ${link} in git`);
    t.true(isPacked(target), `${document}: ${link} in the tarball`);
    if (anchor === undefined) continue;
    t.true(anchorsOf(target).has(anchor), `${document}: ${link} has no such heading`);
  }
});

function isIn(files: readonly string[], target: string): boolean {
  return files.some((file) => file === target || file.startsWith(`${target}/`));
}

/**
 * Whether the package contains a file, by `files` of package.json. npm adds README and LICENSE
 * itself.
 */
function isPacked(target: string): boolean {
  if (target === 'README.md' || target === 'LICENSE') return true;
  const isExcluded = packed.some((it) => it.startsWith('!') && isIn([target], it.slice(1)));
  return !isExcluded && packed.some((it) => target === it || target.startsWith(`${it}/`));
}
