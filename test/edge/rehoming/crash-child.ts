/**
 * Stores a statement in the identity of a site, changes the centre, and replaces the key, and ends
 * itself with SIGKILL before a given step. Arguments: directory of the site, number of the step.
 */

import { readFileSync } from 'node:fs';
import { adoptNextKey, createNextKey, SiteIdentityFile } from '#edge/identity/site-identity.ts';
import { nextTrust, withNextCentre, withStatement } from '#edge/rehoming/change-centre.ts';
import { readStatement } from '#edge/rehoming/statement.ts';

const [directory = '', killAt = '0'] = process.argv.slice(2);
let step = 0;
const file = new SiteIdentityFile(directory, () => {
  step += 1;
  if (step === Number(killAt)) process.kill(process.pid, 'SIGKILL');
});
const text = readFileSync(`${directory}/statement`, 'utf8');
const { statement } = readStatement(text);
const { root, rehomed } = (await file.read()) ?? {};
if (root === undefined) throw new Error('the identity has no root');
if (rehomed === undefined) {
  const { key } = await file.change((it) => withStatement(it, text, statement));
  const trust = await nextTrust(root, statement);
  const change = {
    statement,
    trust,
    key,
    configured: 'https://old.example.org',
    former: [],
    now: 5,
  };
  await file.change((it) => withNextCentre(it, change));
}
await createNextKey(file);
await adoptNextKey(file, 6);
process.stdout.write(String(step));
