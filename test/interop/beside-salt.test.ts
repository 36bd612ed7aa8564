/**
 * Runs the commands in docs/compatibility/command-line.md with Salt's own programs and with ours,
 * with the same two minions.
 */
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { freePort } from '../../bench/free-port.ts';
import { readCases } from '../cli/fixture.ts';
import { eventually } from './eventually.ts';
import { MasterHome } from './our-master.ts';
import { masterPrograms, minionPrograms, steps } from './programs.ts';
import { RealMaster } from './real-master.ts';
import { type MasterPorts, RealMinion } from './real-minion.ts';

interface Command {
  readonly program: string;
  readonly argv: readonly string[];
  /** Further options of the configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
}

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const commands = readCases<Command>('beside-salt.json');
const ourProgram = fileURLToPath(new URL('../../bin/saltbridge', import.meta.url));

function execute(program: string, args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(program, args, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

/** Patterns of texts that differ in each run, with replacements. */
const ownOfRun: readonly (readonly [RegExp, string])[] = [
  [/\b20\d{18}\b/g, 'JID'],
  [/Started: [\d:.]+/g, 'Started: TIME'],
  [/Duration: [\d.]+ ms/g, 'Duration: TIME'],
  [/Total run time:.*/g, 'Total run time: TIME'],
];

/**
 * Matches log lines of Salt, warnings of its Python, and our messages that Salt writes to its log.
 */
const noise =
  /^(?:# )?(?:Task was destroyed|task: <|future: <|Exception ignored|\[(?:ERROR|WARNING) |saltbridge: )/;

/**
 * Makes equal results equal as text: blocks that begin with a line without indentation are sorted.
 */
function normalize(text: string): string {
  const plain = ownOfRun.reduce((it, [form, word]) => it.replace(form, word), text);
  return plain
    .split(/\n(?=\S)/)
    .map((block) => block.trimEnd())
    .sort()
    .join('\n');
}

function normalizeError(text: string): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !noise.test(line));
  return normalize(lines.join('\n'));
}

function makeFiles(): string {
  const root = mkdtempSync(path.join(tmpdir(), 'b-'));
  mkdirSync(path.join(root, 'tree', 'none'), { recursive: true });
  for (const name of ['one', 'tree/two']) writeFileSync(path.join(root, name), `${name}\n`);
  return root;
}

const states: Readonly<Record<string, string>> = {
  'good.sls': 'one:\n  test.nop: []\ntwo:\n  test.succeed_with_changes: []\n',
  'bad.sls': 'one:\n  test.fail_without_changes: []\ntwo:\n  test.nop: []\n',
  'top.sls': "base:\n  '*': [good]\n",
};

const pillar: Readonly<Record<string, string>> = {
  'top.sls': "base:\n  '*': [site]\n",
  'site.sls': 'site: north\n',
};

function writeAll(directory: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(directory, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(directory, name), text);
}

const master = masterPrograms.at(-1) ?? '';
const minion = minionPrograms.at(-1) ?? '';

function createMinion(ports: MasterPorts, name: string, role: string): Promise<RealMinion> {
  const masters = ['127.0.0.1', '127.0.0.2'];
  return RealMinion.create({ ...ports, program: minion, name, masters, grains: `{role: ${role}}` });
}

steps('SALT_MINION', 'SALT_MASTER')(
  `${commands.length} commands print beside a real master what Salt's own print`,
  async (t) => {
    t.timeout(1_800_000);
    const site = mkdtempSync(path.join(tmpdir(), 'site-'));
    t.teardown(() => rmSync(site, { recursive: true, force: true }));
    writeAll(path.join(site, 'states'), states);
    writeAll(path.join(site, 'pillar'), pillar);
    const ports = { requestPort: await freePort(), publishPort: await freePort() };
    const minions = [
      await createMinion(ports, 'm1', 'one'),
      await createMinion(ports, 'm2', 'two'),
    ];
    const ids = minions.map(({ id }) => id);
    const nodegroups = { both: `L@${ids.join(',')}` };
    const roots = { base: [path.join(site, 'states')] };
    const pillarRoots = { base: [path.join(site, 'pillar')] };
    const shared = { file_roots: roots, pillar_roots: pillarRoots, nodegroups };
    const real = new RealMaster(master, ports, JSON.stringify(shared));
    t.teardown(() => real.dispose());
    for (const each of minions) t.teardown(() => each.dispose());
    real.start();
    for (const each of minions) each.start();
    for (const id of ids) await real.accept(id);

    const home = (await MasterHome.create()).with({
      ...{ interface: '127.0.0.2', retPort: ports.requestPort, publishPort: ports.publishPort },
      ...{ fileRoots: roots, pillarRoots, nodegroups, autoAccept: true },
    });
    t.teardown(() => home.dispose());
    mkdirSync(path.join(home.directory, 'pki'), { mode: 0o700 });
    for (const name of ['master.pem', 'master.pub']) {
      const ours = path.join(home.directory, 'pki', name);
      copyFileSync(path.join(real.directory, 'pki', name), ours);
    }
    const ours = await home.startHere(null);
    t.teardown(() => ours.close());
    await eventually(
      'both minions to answer our master',
      async () => {
        const answers = [];
        for await (const update of ours.api.jobs.run({ tgt: '*', fun: 'test.ping' })) {
          if (update.type === 'return') answers.push(update.minion);
        }
        return answers.length === 2;
      },
      120_000,
      1000,
    );
    for (const id of ids) await real.ping(id);

    const configure = (side: string, config: Command['config'] = {}): string => {
      const directory = path.join(site, side);
      mkdirSync(directory, { recursive: true });
      const { pkiDir, sockDir } = home.options;
      const own =
        side === 'ours'
          ? { root_dir: '/', pki_dir: pkiDir, sock_dir: sockDir }
          : { include: path.join(real.configDirectory, 'master.d', '*.conf'), ...shared };
      writeFileSync(path.join(directory, 'master'), JSON.stringify({ ...own, ...config }));
      return directory;
    };
    const asOf = (text: string, files: string): string =>
      ids
        .reduce((it, id, index) => it.replaceAll(id, `m${index + 1}`), text)
        .replaceAll(files, 'DIR');
    const run = async (side: 'ours' | 'salt', { program, argv, config }: Command) => {
      const files = makeFiles();
      const words = argv.map((word) =>
        word.replace('{dir}', files).replace(/\bm([12])(?=$|[, ])/g, (_, n) => ids[n - 1] ?? ''),
      );
      const directory = configure(side, config);
      const { code, stdout, stderr } =
        side === 'ours'
          ? await execute(process.execPath, [ourProgram, program, '-c', directory, ...words])
          : await execute(path.join(path.dirname(master), program), ['-c', directory, ...words]);
      rmSync(files, { recursive: true, force: true });
      return {
        code,
        stdout: normalize(asOf(stdout, files)),
        stderr: normalizeError(asOf(stderr, files)),
      };
    };
    const different: object[] = [];
    for (const command of commands) {
      const salt = await run('salt', command);
      const saltbridge = await run('ours', command);
      if (!isDeepStrictEqual(salt, saltbridge)) different.push({ command, salt, saltbridge });
    }
    t.deepEqual(different, []);
  },
);
