import { fileURLToPath } from 'node:url';
import { prepareLoading } from './scripts/test-loading.js';

/** Long tests run where an argument names them: `npm run test:all`, or the file itself. */
const runsLongTests = process.argv.some((argument) => argument.includes('long'));
/** Tests with real programs run where a variable of the environment or an argument names some. */
const runsInterop =
  Object.keys(process.env).some((name) => /^(SALT|HEAT)_/.test(name)) ||
  process.argv.some((argument) => argument.includes('interop'));

/**
 * Environment of the processes of test files. Each of them loads most of the product. With compiled
 * code from a cache, a test file takes about 40 % less processor time. Coverage counts only
 * functions that do not come from the cache.
 */
const environmentVariables =
  process.env.NODE_V8_COVERAGE === undefined
    ? {
        NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compiled', import.meta.url)),
      }
    : {};

// biome-ignore lint/style/noDefaultExport: AVA requires it.
export default {
  files: [
    'test/**/*.test.ts',
    ...(runsLongTests ? [] : ['!test/**/*.long.test.ts']),
    ...(runsInterop ? [] : ['!test/interop/**']),
  ],
  environmentVariables,
  nodeArguments: ['--import', prepareLoading()],
  extensions: { ts: 'module' },
  require: ['./test/helpers/process-end.ts'],
  // For tests that hang: a loaded machine may need minutes for what takes seconds.
  timeout: '5m',
  // Threads would share one process: a program that one test starts would briefly keep the sockets
  // that another test has just closed, and their ports and locks would seem to be in use.
  workerThreads: false,
  // More than the processors of a small machine: many tests wait for programs, disks and threads.
  concurrency: 6,
};
