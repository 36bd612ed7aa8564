/**
 * Tests that three members of a cluster are restarted one after the other, while callers run jobs.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import type { Minion, MinionFunction } from '#minion-protocol';
import { createSaltApi, type SaltApi } from '#salt-api';
import { freePort } from '../../bench/free-port.ts';
import { type ClusterMaster, ClusterMasters } from '../helpers/cluster-masters.ts';
import { until, within } from '../helpers/deadline.ts';

const password = 'of-the-test';
const names = ['a', 'b', 'c'] as const;
const ids = ['web1', 'web2'] as const;

/** Called for each call that a minion receives, with the number of the call and the job id. */
type OnCall = (id: string, call: unknown, jid: string) => void;

/** Member with an HTTP API at a fixed address, and the minions that are connected to the member. */
class Member {
  readonly port: number;
  readonly #masters: ClusterMasters;
  readonly #onCall: OnCall;
  #minions: Minion[] = [];
  #api: SaltApi | undefined;
  running: ClusterMaster;

  constructor(masters: ClusterMasters, running: ClusterMaster, port: number, onCall: OnCall) {
    this.#masters = masters;
    this.running = running;
    this.port = port;
    this.#onCall = onCall;
  }

  async serve(t: ExecutionContext): Promise<void> {
    const { master } = this.running;
    this.#api = await createSaltApi(master, { host: '127.0.0.1', port: this.port });
    await this.#api.listen();
    for (const id of ids) {
      const functions = {
        'test.count': (({ args: [call] }, { jid }) => {
          this.#onCall(id, call, jid);
          return true;
        }) satisfies MinionFunction,
      };
      const asked = this.running.connect(t, id, functions);
      let isConnected = false;
      void asked.then(() => {
        isConnected = true;
      });
      while (!isConnected) {
        await master.keys.accept({ match: id });
        await new Promise((resolve) => setImmediate(resolve));
      }
      this.#minions.push(await asked);
    }
  }

  async close(): Promise<void> {
    await this.#api?.close();
    for (const minion of this.#minions) await minion.stop();
    this.#minions = [];
    await this.running.master.close();
  }

  async restart(t: ExecutionContext): Promise<void> {
    await this.close();
    this.running = await this.#masters.start(this.running.config);
    await this.serve(t);
  }
}

test.serial(
  'a rolling restart of three drained members misses no job, and runs none twice',
  async (t) => {
    t.timeout(240_000);
    const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-rolling-'));
    const masters = new ClusterMasters(directory, {
      keysize: 2048,
      timeout: 20,
      externalAuth: { sharedsecret: { ann: ['.*', '@jobs', '@runner', '@wheel'] } },
      eauth: { sharedsecret: password },
    });
    // A minion that is connected to several members receives a job from each of them, and Salt's
    // minions run it once.
    const ran = new Map<string, Set<string>>();
    const onCall: OnCall = (id, call, jid) => {
      const name = `${id} ${call}`;
      ran.set(name, (ran.get(name) ?? new Set()).add(jid));
    };
    const members: Member[] = [];
    t.teardown(async () => {
      for (const member of members) await member.close();
      rmSync(directory, { recursive: true, force: true });
    });
    for (const name of names) {
      const [first] = members;
      const running =
        first === undefined ? await masters.first(name) : await masters.join(name, first.running);
      members.push(new Member(masters, running, await freePort(), onCall));
    }
    for (const member of members) await member.serve(t);
    const [first] = members;
    const login = { username: 'ann', password, eauth: 'sharedsecret' };
    const token = (await first?.running.master.logins.login(login))?.token ?? '';
    const urls = members.map(({ port }) => `http://127.0.0.1:${port}`);

    let isOver = false;
    let count = 0;
    const problems: string[] = [];
    const jids = new Set<string>();
    const call = async (caller: number): Promise<void> => {
      // Each caller begins with another member.
      const api = connectMaster({ urls: [...urls.slice(caller), ...urls.slice(0, caller)], token });
      while (!isOver) {
        count += 1;
        const number = count;
        const returned = new Set<string>();
        try {
          for await (const it of api.jobs.run({ tgt: '*', fun: 'test.count', arg: [number] })) {
            jids.add(it.jid);
            if (it.type === 'return') returned.add(it.minion);
          }
          if (returned.size !== ids.length) problems.push(`${number}: ${[...returned].join()}`);
        } catch (error) {
          problems.push(`${number}: ${error}`);
        }
      }
    };
    const callers = names.map((_, index) => call(index));
    for (const member of members) {
      const before = count;
      await until('some jobs', () => count > before + 10);
      t.deepEqual(await member.running.master.cluster.drain({ seconds: 60 }), { active: 0 });
      t.true((await member.running.master.cluster.status())?.isDraining);
      await member.restart(t);
      t.false((await member.running.master.cluster.status())?.isDraining);
    }
    isOver = true;
    await within('the callers', Promise.all(callers));
    t.log(`${count} jobs`);
    t.deepEqual(problems, []);
    t.is(jids.size, count);
    t.is(ran.size, count * ids.length);
    t.deepEqual(
      [...ran].filter(([, { size }]) => size !== 1),
      [],
    );
  },
);
