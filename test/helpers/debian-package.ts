/** Builds the Debian package of this checkout without a network. */

import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { root } from './markdown.ts';
import { installPacked } from './packed-project.ts';

/**
 * Builds the package.
 * @param directory - for intermediate files and the package
 * @returns the path of the package
 */
export function buildDebianPackage(directory: string): string {
  const [app, output] = [path.join(directory, 'app'), path.join(directory, 'out')];
  for (const it of [app, output]) mkdirSync(it);
  installPacked(app, { withTypeScript: false });
  return execFileSync(`${root}packaging/build-deb`, [app, process.execPath, output], {
    encoding: 'utf8',
    // Compression would take time and is not needed for the test.
    env: { ...process.env, DPKG_DEB_OPTIONS: '-Znone' },
  }).trim();
}
