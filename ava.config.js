// biome-ignore lint/style/noDefaultExport: AVA requires it.
export default {
  files: ['test/**/*.test.ts'],
  extensions: { ts: 'module' },
  timeout: '60s',
  // More than the processors of a small machine: many tests wait for programs, disks and threads.
  concurrency: 4,
};
