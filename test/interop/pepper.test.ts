/**
 * Unmodified pepper with our HTTP API. `PEPPER` names the program (Debian's salt-pepper). Without
 * it, these tests are skipped.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { ExecutionContext } from 'ava';
import { testWhere } from '../helpers/needs.ts';
import { password, startApi } from '../helpers/salt-api.ts';

const program = process.env.PEPPER ?? '';
const withPepper = testWhere(program !== '', 'PEPPER, the program of salt-pepper');

type Pepper = (...words: readonly string[]) => Promise<string>;

async function start(t: ExecutionContext): Promise<Pepper> {
  const { port } = await startApi(t);
  const url = `http://127.0.0.1:${port}`;
  const login = ['-u', url, '-a', 'sharedsecret', '--username', 'admin', '--password', password];
  return async (...words) => {
    const { stdout } = await promisify(execFile)(program, [...login, ...words]);
    return stdout;
  };
}

function valuesOf(stdout: string): Record<string, unknown>[] {
  const { return: list } = JSON.parse(stdout) as { return: Record<string, unknown>[] };
  return list.map((values) =>
    Object.fromEntries(
      // Later releases request the full return.
      Object.entries(values).map(([minion, value]) => [minion, isFull(value) ? value.ret : value]),
    ),
  );
}

function isFull(value: unknown): value is { readonly ret: unknown } {
  return typeof value === 'object' && value !== null && 'ret' in value;
}

withPepper('pepper runs functions on minions', async (t) => {
  const pepper = await start(t);
  const both = { web1: true, db1: true };
  t.deepEqual(valuesOf(await pepper('*', 'test.ping')), [both]);
  t.deepEqual(valuesOf(await pepper('-r', '*', 'test.ping')), [both]);
  t.deepEqual(valuesOf(await pepper('-L', 'web1', 'test.ping')), [{ web1: true }]);
  const batch = valuesOf(await pepper('--batch', '1', '*', 'test.ping'));
  t.deepEqual(batch, [{ db1: true }, { web1: true }]);
  const followed = await pepper('--fail-if-incomplete', '*', 'test.ping');
  // Debian's release prints Python notation here.
  for (const id of ['web1', 'db1']) t.regex(followed, new RegExp(`${id}"?: [Tt]rue`));
});

withPepper('pepper calls runners and wheel functions', async (t) => {
  const pepper = await start(t);
  const runner = await pepper('--client=runner', 'manage.up');
  t.true(runner.replaceAll(/\s/g, '').includes('["db1","web1"]'));
  const [wheel] = valuesOf(await pepper('--client=wheel', 'key.finger', 'match=web1'));
  t.like(wheel?.data, { success: true, fun: 'wheel.key.finger' });
});
