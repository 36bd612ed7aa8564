/** `saltbridge salt-cp`: copies files to minions [salt/cli/cp.py]. */

import { type FileHandle, open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Command } from 'commander';
import { type JobUpdate, type MasterApi, type RunRequest, returnerOf } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { CommandContext } from '../context.ts';
import { CommandError, errorCodeOf, exitCodes } from '../errors.ts';
import { sudoUser } from '../login.ts';
import { configOption, logLevelOption, parseSeconds } from '../options.ts';
import {
  addOutputOptions,
  chooseOutput,
  type OutputCommandOptions,
} from '../output/output-options.ts';
import { formatData } from '../output/outputters.ts';
import { printLine } from '../terminal.ts';
import { noMinionsMatched } from './follow-salt-job.ts';
import { printSaltFailure } from './salt-failures.ts';
import { printLeftOut } from './salt-output.ts';
import { addTargetOptions, rangeProblem, type TargetOptions, toTarget } from './salt-target.ts';
import { formatSaltUsageError, useSaltUsage } from './salt-usage.ts';

/** As commander names them. */
interface SaltCpOptions extends TargetOptions, OutputCommandOptions {
  readonly configDir: string;
  readonly timeout?: number;
  readonly chunked?: boolean;
  /** False with `--no-compression`. */
  readonly compression: boolean;
}

/** What is copied, and where to. */
interface CopyRequest {
  readonly sources: readonly string[];
  readonly destination: string;
}

/** A source as `--chunked` sends it. */
interface SourceFile {
  readonly file: string;
  /** Permissions; `undefined`: an empty directory. */
  readonly mode: number | undefined;
}

/** What minions said of each file, in the order of their first words. */
type Answers = Map<string, WireValue>;

/** A file larger than this is sent in chunks or not at all: a job is held in memory whole. */
const maxWholeBytes = 1_048_576;

/** Ends the command with what Salt prints and returns. */
class CopyStopped extends Error {
  readonly exitCode: number;
  readonly isError: boolean;

  constructor(message: string, exitCode: number, isError: boolean) {
    super(message);
    this.exitCode = exitCode;
    this.isError = isError;
  }
}

/** Sends files as jobs, and collects what became of them. For a single use. */
class FileCopier {
  readonly #jobs: MasterApi['jobs'];
  readonly #call: Omit<RunRequest, 'fun' | 'arg'>;
  readonly #context: CommandContext;
  readonly #answers = new Map<string, Answers>();
  #isLeftOutPrinted = false;

  constructor(
    jobs: MasterApi['jobs'],
    call: Omit<RunRequest, 'fun' | 'arg'>,
    context: CommandContext,
  ) {
    this.#jobs = jobs;
    this.#call = call;
    this.#context = context;
  }

  /** All files in one job; only text. */
  async copyWhole({ sources, destination }: CopyRequest): Promise<Answers> {
    const texts = new Map<string, string>();
    for (const source of sources) {
      const text = await readWhole(source);
      if (text !== undefined) texts.set(source, text);
    }
    return this.#run('cp.recv', [texts, destination]);
  }

  /** Each chunk of each file in a job of its own. */
  async copyChunks(
    request: CopyRequest,
    chunks: { readonly size: number; readonly isCompressed: boolean },
  ): Promise<Answers> {
    const files = (await Promise.all(request.sources.map(listFiles))).flat();
    const isInto =
      files.length > 1 ||
      files.some(({ mode }) => mode === undefined) ||
      request.destination.endsWith('/');
    for (const { file, mode } of files) {
      const remote = remotePath(file, request, isInto);
      if (mode !== undefined) await this.#copyFile({ file, mode, remote, ...chunks });
    }
    for (const { file, mode } of files) {
      const remote = remotePath(file, request, isInto);
      if (mode !== undefined) continue;
      const answers = await this.#run('cp.recv_chunked', [remote, null]);
      for (const [minion, answer] of answers) this.#record(minion, remote, answer);
    }
    return this.#answers;
  }

  async #copyFile(source: {
    readonly file: string;
    readonly mode: number;
    readonly remote: string;
    readonly size: number;
    readonly isCompressed: boolean;
  }): Promise<void> {
    const { file, mode, remote, size, isCompressed } = source;
    const failed = new Map<string, WireValue>();
    let isFirst = true;
    for await (const chunk of readChunks(file, size)) {
      const packed = isCompressed ? await promisify(gzip)(chunk) : chunk;
      // By keyword: a minion takes text with an equals sign for one.
      const answers = await this.#run('cp.recv_chunked', [], {
        ...{ dest: remote, chunk: packed.toString('base64'), append: !isFirst },
        ...{ compressed: isCompressed, mode },
      });
      // Nobody is there: nobody will be for the rest of it.
      if (answers.size === 0) return;
      for (const [minion, answer] of answers) {
        this.#record(minion, remote, answer);
        if (answer !== true && !failed.has(minion)) failed.set(minion, answer);
      }
      isFirst = false;
    }
    for (const [minion, answer] of failed) this.#record(minion, remote, answer);
  }

  #record(minion: string, remote: string, answer: WireValue): void {
    const files = this.#answers.get(minion) ?? new Map<string, WireValue>();
    this.#answers.set(minion, files.set(remote, answer));
  }

  async #begin(published: Extract<JobUpdate, { type: 'published' }>): Promise<void> {
    const { stdout, stderr } = this.#context;
    if (published.minions.length === 0) await printLine(stdout, noMinionsMatched);
    if (this.#isLeftOutPrinted) return;
    this.#isLeftOutPrinted = true;
    await printLeftOut(stderr, published);
  }

  /** What minions return; `false` of those that do not. */
  async #run(fun: string, arg: readonly WireValue[], kwarg: WireMap = {}): Promise<Answers> {
    const answers: Answers = new Map();
    const { interruption } = this.#context;
    for await (const update of this.#jobs.run({ ...this.#call, fun, arg, kwarg }, interruption())) {
      if (update.type === 'published') await this.#begin(update);
      if (update.type === 'return') answers.set(returnerOf(update), update.return);
      if (update.type !== 'finished') continue;
      for (const minion of [...update.silent, ...update.reconnecting]) answers.set(minion, false);
    }
    return answers;
  }
}

/** `undefined`: there is no such file, which Salt passes over without a word. */
async function readWhole(file: string): Promise<string | undefined> {
  const found = await stat(file).catch(absentFile);
  if (found === undefined) return undefined;
  if (found.isDirectory()) {
    const text = `${file} is a directory, only files are supported in non-chunked mode. Use "--chunked" command line argument.`;
    throw new CopyStopped(text, exitCodes.failure, false);
  }
  if (found.size > maxWholeBytes) {
    throw new CommandError(
      'ERR_ARGS',
      `${file} has more than ${maxWholeBytes} bytes; add --chunked`,
    );
  }
  const handle = await open(file);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      await handle.readFile(),
    );
  } catch (cause) {
    throw new CommandError('ERR_ARGS', `${file} is not text in UTF-8; add --chunked`, { cause });
  } finally {
    await handle.close();
  }
}

function absentFile(error: unknown): undefined {
  if (errorCodeOf(error) !== 'ENOENT') throw error;
}

/** A file itself, or all files and empty directories below a directory. */
async function listFiles(source: string): Promise<SourceFile[]> {
  const found = await stat(source).catch(absentFile);
  if (found === undefined)
    throw new CopyStopped(`${source} does not exist`, exitCodes.incomplete, true);
  if (!found.isDirectory()) return [{ file: source, mode: found.mode & 0o7777 }];
  const names = (await readdir(source)).sort();
  if (names.length === 0) return [{ file: source, mode: undefined }];
  const below: SourceFile[] = [];
  for (const name of names) below.push(...(await listFiles(path.join(source, name))));
  return below;
}

/** Where a file goes: below the destination with the name of the source that it belongs to. */
function remotePath(file: string, { sources, destination }: CopyRequest, isInto: boolean): string {
  if (sources.includes(file)) {
    return isInto ? path.posix.join(destination, path.basename(file)) : destination;
  }
  const source = sources.find((each) => file.startsWith(`${each}/`)) ?? path.dirname(file);
  return path.posix.join(destination, path.basename(source), path.relative(source, file));
}

/** At least one, so that an empty file is made. */
async function* readChunks(file: string, size: number): AsyncGenerator<Buffer, void, void> {
  const handle: FileHandle = await open(file);
  try {
    let length = 0;
    do {
      const buffer = Buffer.alloc(size);
      length = await fill(handle, buffer);
      yield buffer.subarray(0, length);
    } while (length === size);
  } finally {
    await handle.close();
  }
}

/** @returns how many bytes were there; fewer than fit at the end of the file */
async function fill(handle: FileHandle, buffer: Buffer): Promise<number> {
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await handle.read(buffer, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return length;
}

/** `saltbridge salt-cp`: takes the flags of Salt's own command and prints what it prints. */
export function defineSaltCp(command: Command, context: CommandContext): void {
  command
    .usage('[options] <tgt> <source...> <destination>')
    .argument('[tgt]', 'which minions: a glob on their ids, or as one of the options says')
    .argument('[files...]', 'files on this host, and last the path on the minions')
    .addOption(configOption());
  addTargetOptions(command, ['pcre', 'list', 'grain', 'grainPcre', 'nodegroup', 'range'])
    .option('-t, --timeout <seconds>', 'time for minions to answer', parseSeconds)
    .option('-C, --chunked', 'copy in chunks: large files, and directories with all below them')
    .option('-n, --no-compression', 'do not compress chunks');
  addOutputOptions(command);
  command.addOption(logLevelOption());
  useSaltUsage(command, context.stdout).action(
    async (tgt: string | undefined, files: string[], options: SaltCpOptions) => {
      context.setExitCode(await runSaltCp(command, context, tgt, files, options));
    },
  );
}

async function runSaltCp(
  command: Command,
  context: CommandContext,
  tgt: string | undefined,
  files: readonly string[],
  options: SaltCpOptions,
): Promise<number> {
  const { stdout, stderr } = context;
  const destination = files.at(-1);
  if (tgt === undefined || destination === undefined) {
    await printLine(stdout, command.helpInformation().trimEnd());
    await printLine(stderr, formatSaltUsageError('salt-cp', 'Insufficient arguments'));
    return exitCodes.usage;
  }
  if (options.range === true) throw new CommandError('ERR_ARGS', rangeProblem);
  const sources = await Promise.all(files.slice(0, -1).map(resolvePath));
  try {
    const answers = await copy({ sources, destination }, tgt, options, context);
    const { output, sink } = await chooseOutput(options, context);
    await sink.write(formatData(answers, undefined, output));
    return exitCodes.ok;
  } catch (error) {
    if (!(error instanceof CopyStopped))
      return printSaltFailure(error, 'salt-cp', context, options);
    await printLine(error.isError ? stderr : stdout, error.message);
    return error.exitCode;
  }
}

async function copy(
  request: CopyRequest,
  tgt: string,
  options: SaltCpOptions,
  context: CommandContext,
): Promise<Answers> {
  const { configDir, timeout, chunked, compression } = options;
  const { jobs } = await context.openApi(configDir);
  const call = {
    ...toTarget(tgt, options),
    ...(timeout === undefined ? {} : { timeoutSeconds: timeout }),
    ...sudoUser(),
  };
  const copier = new FileCopier(jobs, call, context);
  if (chunked !== true) return copier.copyWhole(request);
  const { saltCpChunkSize: size } = await context.commandDefaults(configDir);
  return copier.copyChunks(request, { size, isCompressed: compression });
}

/** Links are followed; what is not there keeps its name. */
function resolvePath(file: string): Promise<string> {
  return realpath(file).catch(() => path.resolve(file));
}
