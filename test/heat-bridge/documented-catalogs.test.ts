/** The catalogs in the documents load as they are written. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { loadCatalog } from '#guests';
import { codeBlocks, documents } from '../helpers/markdown.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

/** First line of a catalog. A file of approved plans of a site also contains the key `plans`. */
const catalog = /^(?:deployments|murano):$|^[\w-]+\.[\w.-]+:\n {2}description:/m;

/** Digests are abbreviated in documents. */
const digest = /\b[0-9a-f]{4,}…/g;

for (const document of documents()) {
  const blocks = codeBlocks(document).filter(
    ({ language, text }) => /^ya?ml$/.test(language) && catalog.test(text),
  );
  if (blocks.length === 0) continue;
  test(`the catalogs of ${document} load`, async (t) => {
    const directory = temporaryDirectory(t);
    for (const [index, { text }] of blocks.entries()) {
      writeFileSync(path.join(directory, `${index}.yaml`), text.replace(digest, 'a'.repeat(64)));
    }
    const { findings } = await loadCatalog([directory]);
    // A page may refer to commands of another page.
    const problems = findings.filter(
      ({ problem }) => !problem.includes('no command in the catalog'),
    );
    t.deepEqual(problems, []);
  });
}
