/** The commands `saltbridge site`, with real masters. */

import { mkdirSync, writeFileSync } from 'node:fs';
import test from 'ava';
import { joinSite, type SiteInfo } from '#edge';
import { runCli } from '../cli/run-cli.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { startCentre, stateDirOf } from './edge-stage.ts';

test('a ticket, joining, listing and revoking work on the command line', async (t) => {
  const centre = await startCentre(t);
  const openExtension = async (_directory: string, name: string) => centre.rpc(name);
  const site = (...args: readonly string[]) => runCli(['site', ...args], { openExtension });
  const { stdout: ticket, code } = await site('ticket', 'north', '--url', centre.url);
  t.is(code, 0);
  const directory = temporaryDirectory(t);
  mkdirSync(directory, { recursive: true });
  const section = { name: 'north', centre: centre.url };
  writeFileSync(
    `${directory}/master`,
    JSON.stringify({
      root_dir: directory,
      saltbridge: { state_dir: stateDirOf(directory), site: section },
    }),
  );
  const joined = await runCli(['site', 'join', ticket.trim(), '-c', directory], {});
  t.is(joined.code, 0, joined.stderr);
  t.regex(joined.stdout, /north has joined http/);
  const again = await runCli(['site', 'join', ticket.trim(), '-c', directory], {});
  t.not(again.code, 0);
  t.regex(again.stderr, /already used/);
  const listed = await site('list', '--json');
  const [info]: readonly SiteInfo[] = JSON.parse(listed.stdout);
  t.like(info, { name: 'north', state: 'joined' });
  t.regex((await site('show', 'north')).stdout, /^site {6}north\nstate {5}joined/);
  t.regex((await site('revoke', 'north')).stdout, /north revoked/);
  const unknown = await site('show', 'nowhere');
  t.regex(unknown.stderr, /unknown site/);
  await t.throwsAsync(joinSite(ticket, { stateDir: stateDirOf(directory), site: section }), {
    code: 'ERR_SITE_TICKET',
  });
});
