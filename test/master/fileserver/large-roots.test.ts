/** File roots with many files are listed in slices. */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { maxSliceSteps } from '#runtime';
import { HiddenDirectories } from '#salt/file-trees/disk-files.ts';
import { walkRoots } from '#salt/file-trees/walk-roots.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const perDirectory = 1500;
/** Steps by which the last part of a slice may exceed it. */
const maxExcess = 50_000;

test.serial('other work runs while the files of large roots are listed and sorted', async (t) => {
  const root = temporaryDirectory(t);
  for (const directory of ['b', 'a']) {
    mkdirSync(path.join(root, directory));
    for (let at = 0; at < perDirectory; at += 1) {
      writeFileSync(path.join(root, directory, `${at}`), '');
    }
  }
  const hidden = await HiddenDirectories.open([]);
  const found: string[] = [];
  const slices = await slicesOf(async () => {
    const { lists } = await walkRoots([root], {
      ...{ hidden, followsSymlinks: false, ignoresSymlinks: false },
      ...{ isIgnored: () => false, onDirectory: () => {} },
    });
    found.push(...lists.files);
  });
  const all = ['a', 'b'].flatMap((it) =>
    Array.from({ length: perDirectory }, (_, at) => `${it}/${at}`),
  );
  t.deepEqual(found, all.sort());
  // Three slices for the files, and one for sorting them.
  t.true(slices.length >= 4, `${slices}`);
  t.true(
    slices.every((steps) => steps <= maxSliceSteps + maxExcess),
    `${slices}`,
  );
});
