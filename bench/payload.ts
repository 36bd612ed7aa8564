import { Packr } from 'msgpackr';
import { openValue, parseKeyString, sealValue } from '#minion-protocol/crypt.ts';
import { packWire, unpackWire } from '#minion-protocol/payload.ts';
import type { WireMap } from '#minion-protocol/wire-value.ts';

const rounds = 20_000;
const warmUp = 2_000;
const keyString = 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc=';

/**
 * Returns the result of a state run with four states. Like most returns, it has about a kilobyte.
 */
function typicalReturn(): WireMap {
  const states: WireMap = {};
  for (const name of ['nginx', 'nginx-config', 'site', 'service']) {
    states[`file_|-${name}_|-/etc/${name}_|-managed`] = {
      name: `/etc/${name}`,
      changes: { diff: 'New file', mode: '0644' },
      result: true,
      comment: `File /etc/${name} updated`,
      __run_num__: 3,
      __sls__: 'web',
      start_time: '04:12:06.762441',
      duration: 119.023,
    };
  }
  return {
    cmd: '_return',
    id: 'web1.example.org',
    jid: '20240102030405678901',
    fun: 'state.apply',
    fun_args: ['web'],
    return: states,
    retcode: 0,
    success: true,
    tok: Buffer.alloc(256, 0xc5),
  };
}

function nanosecondsPerRound(work: () => unknown): number {
  for (let round = 0; round < warmUp; round += 1) work();
  const start = process.hrtime.bigint();
  for (let round = 0; round < rounds; round += 1) work();
  return Math.round(Number(process.hrtime.bigint() - start) / rounds);
}

/**
 * Prints the time to pack, unpack, encrypt and decrypt a typical return, in nanoseconds per
 * operation.
 */
export function benchPayload(): void {
  const value = typicalReturn();
  const packr = new Packr({ useRecords: false, variableMapSize: true });
  const packed = packWire(value);
  const theirs = packr.pack(value);
  const key = parseKeyString(keyString);
  const blob = sealValue(key, value);
  const costs: Record<string, () => unknown> = {
    'pack, ours (wire)': () => packWire(value),
    'pack, msgpackr': () => packr.pack(value),
    'read, ours (wire)': () => unpackWire(packed),
    'read, msgpackr': () => packr.unpack(theirs),
    'pack and seal': () => sealValue(key, value),
    'open and read': () => openValue(key, blob),
  };
  process.stdout.write(`a return of ${packed.length} bytes, Node ${process.version}\n`);
  for (const [name, work] of Object.entries(costs)) {
    process.stdout.write(`${name.padEnd(20)} ${nanosecondsPerRound(work)} ns\n`);
  }
}
