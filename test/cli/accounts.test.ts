/** Giving up root: nothing of root's stays. Only root can show it. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import test from 'ava';

const asRoot = process.getuid?.() === 0 ? test : test.skip;
const run = promisify(execFile);

asRoot("whoever gives up root keeps none of root's groups, and cannot come back", async (t) => {
  const module = new URL('../../cli/service/account.js', import.meta.url);
  const program = `
    import { becomeAccount } from ${JSON.stringify(module.href)};
    process.setgroups([0, 4, 65534]);
    becomeAccount({ name: 'nobody', uid: 65534, gid: 65534 });
    let isBack = true;
    try { process.setuid(0); } catch { isBack = false; }
    console.log(JSON.stringify([process.getuid(), process.getgid(), process.getgroups(), isBack]));
  `;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], {
    cwd: '/',
  });
  t.deepEqual(JSON.parse(stdout), [65534, 65534, [65534], false]);
});
