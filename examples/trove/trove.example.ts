import { spawnSync } from 'node:child_process';
import { truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Bridge } from '#guests';
import { call } from '../callers.ts';
import { type ControlPlane, newPassword } from '../control-plane.ts';
import { type Example, type Need, program, type Step, variable } from '../example.ts';
import { type AgentAnswer, query, startTrovePlane, TaskManager } from './callers.ts';
import { Instance, troveUserData } from './instance.ts';
import { EventTexts, isNowhere, searchFor } from './password-search.ts';

const first = 'trove-shop-1';
const second = 'trove-shop-2';
const mebibyte = 1024 * 1024;
const oddName = "shop'; DROP DATABASE `mysql`; #";

/** Trove's operations on real MariaDB servers, called from TypeScript and from Python. */
export const trove: Example = {
  description: "Trove's operations on real MariaDB servers, by real minions",
  needs: troveNeeds,
  run: async (step) => {
    const plane = await step('start a master with catalog, policy and minion modules', async () => {
      const started = await startTrovePlane();
      return { ...started, toJSON: () => started.url };
    });
    const scene = new Scene(step, plane);
    try {
      await scene.boot(first);
      await scene.createServer();
      await scene.createUsers();
      await scene.repeat();
      await scene.refuse();
      await scene.list();
      await scene.changeAccess();
      await scene.configure();
      await scene.backUpAndRestore();
      await scene.searchForPasswords();
      await scene.retire();
    } finally {
      await scene.close();
    }
  },
};

/** Returns the programs and variables that the example requires. */
export function troveNeeds(): readonly Need[] {
  return [
    variable('SALT_MINION', 'path of a salt-minion of 3006.12, 3007.4 or later'),
    program('mariadbd', 'mariadb-server-core'),
    program('mariadb-install-db', 'mariadb-server-core'),
    program('mariadb', 'mariadb-client-core'),
    program('resize2fs', 'e2fsprogs'),
    program('openssl', 'openssl'),
    program('curl', 'curl'),
    program('python3', 'python3'),
  ];
}

/** Returns a database in the form in which Trove serialises it. */
const database = (name: string): object => ({ _name: name });

const isDone = ({ error, runs = [] }: AgentAnswer): boolean =>
  error === undefined && runs.every(({ status }) => status === 'succeeded');

class Scene {
  readonly #step: Step;
  readonly #plane: ControlPlane;
  readonly #instances = new Map<string, Instance>();
  readonly #numbers: string[] = [];
  readonly #shop: TaskManager;
  readonly #blog: TaskManager;
  readonly #events: EventTexts;
  /** Passwords that no file, event or job may contain. */
  readonly #passwords: string[] = [];
  #requests = 0;

  constructor(step: Step, plane: ControlPlane) {
    this.#step = step;
    this.#plane = plane;
    this.#shop = new TaskManager(plane, 'shop');
    this.#blog = new TaskManager(plane, 'blog');
    this.#events = new EventTexts(plane.server.master);
  }

  get #bridge(): Bridge {
    return this.#plane.server.bridge;
  }

  #instance(id: string): Instance {
    const found = this.#instances.get(id);
    if (found === undefined) throw new Error(`there is no ${id}`);
    return found;
  }

  /** Makes a call of Trove for the project shop, as a new request. */
  #agent(
    method: string,
    args: Readonly<Record<string, unknown>> = {},
    { minion = first, request = `req-${++this.#requests}` } = {},
  ): Promise<AgentAnswer> {
    return this.#shop.call(minion, request, method, args);
  }

  #newPassword(): string {
    const password = newPassword();
    this.#passwords.push(password);
    return password;
  }

  /** Enrols an instance, and boots it with the user-data of Trove and of the bridge. */
  async boot(id: string): Promise<void> {
    const instance = await Instance.create(path.join(this.#plane.directory, 'backups'));
    this.#instances.set(id, instance);
    await this.#step(
      `enrol ${id}, and boot the instance with its user-data`,
      async () => {
        const { enrolment, userData } = await this.#bridge.enroll.create({
          id,
          project: 'shop',
          format: 'shell',
          configDir: instance.configDir,
          config: instance.config,
          beside: troveUserData(id, 'shop'),
        });
        this.#numbers.push(enrolment.number);
        await instance.boot(userData);
        await this.#bridge.enroll.signedIn(enrolment.number);
        const info = instance.read('etc/trove/conf.d/guest_info.conf');
        return { guest: /guest_id = .*/.exec(info)?.[0], key: 'accepted' };
      },
      ({ guest }) => guest === `guest_id = ${id}`,
    );
  }

  async createServer(): Promise<void> {
    await this.#step(
      'TypeScript: copy the minion modules to the instance, and prepare its server',
      async () => {
        await call(this.#bridge, first, 'trove.sync-modules');
        return call(this.#bridge, first, 'trove.prepare', { memory_mb: 64 }, 'prepare-1');
      },
      (it) => JSON.stringify(it) === '{"prepared":true,"restored":false}',
    );
  }

  async createUsers(): Promise<void> {
    await this.#step(
      'Python: GuestAgent.create_database',
      () => this.#agent('create_database', { databases: [database('shop'), database('log_1')] }),
      isDone,
    );
    const password = this.#newPassword();
    await this.#step(
      'Python: GuestAgent.create_user; the user can log in, and can use only its own database',
      async () => {
        const users = [{ _name: 'anna', _password: password, _databases: [database('shop')] }];
        const made = await this.#agent('create_user', { users }, { request: 'req-anna' });
        const own = await this.#query('anna', password, 'CREATE TABLE shop.item (id INT)');
        const other = await this.#query('anna', password, 'CREATE TABLE log_1.item (id INT)');
        return { made: isDone(made), own: own.ok, other: other.text };
      },
      ({ made, own, other }) => made && own && other.includes('denied'),
    );
  }

  #query(user: string, password: string, statement: string): ReturnType<typeof query> {
    return query(this.#instance(first).port, user, password, statement);
  }

  /** Changes a password, then repeats the call with the same idempotency key. */
  async repeat(): Promise<void> {
    const [before = ''] = this.#passwords;
    const after = this.#newPassword();
    await this.#step(
      'change_passwords: the new password works, and the old one does not',
      async () => {
        const users = [{ _name: 'anna', _password: after }];
        const made = await this.#agent('change_passwords', { users });
        const [now, former] = await Promise.all([
          this.#query('anna', after, 'SELECT 1'),
          this.#query('anna', before, 'SELECT 1'),
        ]);
        return { made: isDone(made), now: now.ok, former: former.ok };
      },
      ({ made, now, former }) => made && now && !former,
    );
    await this.#step(
      'create_user again with the same request id: it returns the same run, and changes nothing',
      async () => {
        const users = [{ _name: 'anna', _password: before, _databases: [database('shop')] }];
        const jobs = (await this.#plane.server.master.jobs.list()).length;
        const again = await this.#agent('create_user', { users }, { request: 'req-anna' });
        const published = (await this.#plane.server.master.jobs.list()).length - jobs;
        const { ok } = await this.#query('anna', after, 'SELECT 1');
        return { again: isDone(again), published, changed: !ok };
      },
      ({ again, published, changed }) => again && published === 0 && !changed,
    );
  }

  async refuse(): Promise<void> {
    const users = [{ _name: "x'; DROP USER anna; --", _password: this.#newPassword() }];
    await this.#step(
      'the schema rejects a user whose name is SQL code',
      () => this.#agent('create_user', { users }),
      ({ error }) => error?.[0] === 'ERR_COMMAND_PARAMETERS',
    );
    await this.#step(
      'a database whose name is SQL code gets this name, and the code is not executed',
      async () => {
        const made = await this.#agent('create_database', { databases: [database(oddName)] });
        const { return: page } = await this.#agent('list_databases');
        return { made: isDone(made), page };
      },
      ({ made, page }) => made && names(page).join('|') === `log_1|shop|${oddName}`,
    );
    await this.#step(
      'another project cannot use the instance, or commands that no rule permits it',
      async () => {
        const args = { databases: [database('theirs')] };
        const theirs = await this.#blog.call(first, 'b-1', 'create_database', args);
        const stop = await this.#blog.call('trove-blog-1', 'b-2', 'stop_db');
        return [theirs.error?.[0], stop.error?.[0]];
      },
      (codes) => codes.every((code) => code === 'ERR_COMMAND_DENIED'),
    );
  }

  async list(): Promise<void> {
    const users = ['ben', 'carl', 'dora'].map((name) => ({
      _name: name,
      _password: this.#newPassword(),
      _databases: [],
    }));
    await this.#step(
      'list_users returns pages',
      async () => {
        await this.#agent('create_user', { users });
        const one = await this.#agent('list_users', { limit: 3 });
        const [, marker] = one.return as readonly [unknown, string];
        const two = await this.#agent('list_users', { limit: 3, marker });
        return { one: names(one.return), marker, two: names(two.return) };
      },
      ({ one, two }) => one.join() === 'anna,ben,carl' && two.join() === 'dora',
    );
  }

  async changeAccess(): Promise<void> {
    await this.#step(
      'grant_access, revoke_access, list_access, update_attributes, get_user, delete_user',
      async () => {
        const ben = { username: 'ben', hostname: null };
        // In a grant, `_` in the name of a database must not act as a wildcard.
        await this.#agent('grant_access', { ...ben, databases: ['log_1', 'shop', oddName] });
        const granted = names([(await this.#agent('list_access', ben)).return]);
        await this.#agent('revoke_access', { ...ben, database: 'shop' });
        await this.#agent('update_attributes', { ...ben, user_attrs: { name: 'benno' } });
        const { return: found } = await this.#agent('get_user', { ...ben, username: 'benno' });
        await this.#agent('delete_user', { user: { _name: 'benno' } });
        const { return: gone } = await this.#agent('get_user', { ...ben, username: 'benno' });
        return { granted, left: names([(found as { _databases: unknown })._databases]), gone };
      },
      ({ granted, left, gone }) =>
        granted.join('|') === `log_1|shop|${oddName}` &&
        left.join('|') === `log_1|${oddName}` &&
        gone === null,
    );
    await this.#step(
      'enable_root returns a working password, and no job contains it; disable_root disables it',
      async () => {
        const { return: root } = await this.#agent('enable_root');
        const { _password: password } = root as { _password: string };
        this.#passwords.push(password);
        const enabled = await this.#query('root', password, 'SELECT COUNT(*) FROM mysql.user');
        const { return: is } = await this.#agent('is_root_enabled');
        await this.#agent('disable_root');
        const disabled = await this.#query('root', password, 'SELECT 1');
        return { enabled: enabled.ok, is, disabled: !disabled.ok };
      },
      ({ enabled, is, disabled }) => enabled && is === true && disabled,
    );
  }

  async configure(): Promise<void> {
    const password = this.#passwords[1] ?? '';
    const value = async (name: string): Promise<string> =>
      (await this.#query('anna', password, `SELECT @@GLOBAL.${name}`)).text;
    await this.#step(
      'apply_overrides at once; update_overrides after restart; another option is refused',
      async () => {
        await this.#agent('apply_overrides', { overrides: { wait_timeout: 77 } });
        const applied = await value('wait_timeout');
        await this.#agent('update_overrides', { overrides: { max_connections: 33 } });
        const before = await value('max_connections');
        await this.#agent('restart');
        const after = await value('max_connections');
        const overrides = { init_file: '/etc/passwd' };
        const { error } = await this.#agent('update_overrides', { overrides });
        return { applied, before, after, error: error?.[0] };
      },
      (it) =>
        it.applied === '77' &&
        it.before !== '33' &&
        it.after === '33' &&
        it.error === 'ERR_COMMAND_PARAMETERS',
    );
    const { device } = this.#instance(first);
    await this.#step(
      'resize: stop_db, resize_fs of the larger volume, start_db_with_conf_changes',
      async () => {
        writeFileSync(device, '');
        truncateSync(device, 16 * mebibyte);
        spawnSync('mkfs.ext4', ['-q', '-b', '1024', device]);
        truncateSync(device, 32 * mebibyte);
        await this.#agent('stop_db');
        const stopped = !(await this.#query('anna', password, 'SELECT 1')).ok;
        const grown = await this.#agent('resize_fs', { device_path: device });
        const other = await this.#agent('resize_fs', { device_path: '/dev/vdz' });
        const config = '[mysqld]\ninnodb_buffer_pool_size = 128M\n';
        const start = { config_contents: config, ds_version: null };
        await this.#agent('start_db_with_conf_changes', start);
        const size = await value('innodb_buffer_pool_size');
        return {
          stopped,
          grown: isDone(grown),
          blocks: blocksOf(device),
          other: other.error,
          size,
        };
      },
      ({ stopped, grown, blocks, other, size }) =>
        stopped &&
        grown &&
        blocks === 32 * 1024 &&
        other?.[1].includes('not the volume of the instance') === true &&
        size === String(128 * mebibyte),
    );
  }

  async backUpAndRestore(): Promise<void> {
    const password = this.#passwords[1] ?? '';
    const backup = await this.#step(
      'create_backup writes to the file store',
      async () => {
        await this.#query('anna', password, 'INSERT INTO shop.item VALUES (42)');
        const backup_info = { id: 'b-42', backup_type: 'full', parent: null };
        const { runs: [run] = [] } = await this.#agent('create_backup', { backup_info });
        const outcome = await call(this.#bridge, first, 'trove.create-backup', {
          backup_id: 'b-42',
        });
        return { status: run?.status, ...(outcome as { location: string; checksum: string }) };
      },
      ({ status }) => status === 'succeeded',
    );
    await this.boot(second);
    await this.#step(
      `Python: GuestAgent.prepare restores this backup on ${second}, with data, users and passwords`,
      async () => {
        const { location, checksum } = backup;
        const backup_info = { id: 'b-42', location, checksum, storage_driver: 'file' };
        const args = { memory_mb: 64, packages: [], databases: [], users: [], backup_info };
        const prepared = await this.#agent('prepare', args, { minion: second });
        const { port } = this.#instance(second);
        const { text } = await query(port, 'anna', password, 'SELECT id FROM shop.item');
        return { prepared, text };
      },
      ({ prepared, text }) => isDone(prepared) && text === '42',
    );
  }

  /**
   * Searches events, jobs, and all files of the master and of the instances, including logs at the
   * level `debug`.
   */
  async searchForPasswords(): Promise<void> {
    const folders = Array.from(this.#instances.values(), ({ folder }) => folder);
    await this.#step(
      'no event, job, log or file contains a password',
      () => searchFor(this.#passwords, this.#plane, this.#events.texts, folders),
      isNowhere,
    );
  }

  async retire(): Promise<void> {
    await this.#step(
      'retire the instances: their keys are deleted',
      async () => {
        for (const number of this.#numbers) await this.#bridge.enroll.retire({ number });
        const keys = await this.#plane.server.master.keys.list();
        return keys.map(({ id }) => id);
      },
      (ids) => ids.length === 0,
    );
  }

  async close(): Promise<void> {
    await Promise.all([this.#shop.close(), this.#blog.close()]);
    this.#events.close();
    await Promise.all(Array.from(this.#instances.values(), (it) => it.close()));
    await this.#plane.close();
  }
}

/** Returns the names of the users or databases in a page. */
function names(page: unknown): readonly string[] {
  const [entries] = page as readonly [readonly { readonly _name: string }[]];
  return entries.map(({ _name: name }) => name);
}

/** Returns the size of a file system, in blocks of 1 KiB. */
function blocksOf(device: string): number {
  const { stdout } = spawnSync('dumpe2fs', ['-h', device], { encoding: 'utf8' });
  return Number(/^Block count:\s+(\d+)/m.exec(stdout)?.[1]);
}
