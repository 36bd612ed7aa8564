/** Registers work for the end of a test, like AVA's test context. */
export interface Cleanup {
  teardown(end: () => unknown): void;
}
