/** Long tests run where an argument names them: `npm run test:all`, or the file itself. */
const runsLongTests = process.argv.some((argument) => argument.includes('long'));

// biome-ignore lint/style/noDefaultExport: AVA requires it.
export default {
  files: ['test/**/*.test.ts', ...(runsLongTests ? [] : ['!test/**/*.long.test.ts'])],
  extensions: { ts: 'module' },
  // For tests that hang: a loaded machine may need minutes for what takes seconds.
  timeout: '5m',
  // More than the processors of a small machine: many tests wait for programs, disks and threads.
  concurrency: 4,
};
