/**
 * Installs version 2 of a bundle over version 1 and ends itself with SIGKILL before a given step.
 * Arguments: directory of the site, number of the step.
 */

import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { BundleDirectory } from '#edge/bundles/bundle-directory.ts';
import { decodeManifest } from '#edge/bundles/manifest.ts';
import { packedFiles } from '#edge/bundles/pack-content.ts';

const [directory = '', killAt = '0', mode = 'commit'] = process.argv.slice(2);
let step = 0;
const bundles = new BundleDirectory(directory, () => {
  step += 1;
  if (step === Number(killAt)) process.kill(process.pid, 'SIGKILL');
});
const contents: Record<string, string> = JSON.parse(
  readFileSync(`${directory}/contents.json`, 'utf8'),
);
const manifestBytes = readFileSync(`${directory}/manifest-2.json`);
const manifest = decodeManifest(manifestBytes);
const from = await bundles.find(1);
await bundles.install({
  manifestBytes,
  manifest,
  from,
  contents: () =>
    Readable.from(
      packedFiles(from?.manifest, manifest).map((it) => Buffer.from(contents[it.path] ?? '')),
    ),
});
await bundles.switchTo(2, ['web1']);
if (mode === 'commit') await bundles.commit();
else await bundles.revert({ version: 2, code: 'ERR_BUNDLE_CHECK', message: 'a test' });
process.stdout.write(String(step));
