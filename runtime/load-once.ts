/**
 * A module that is loaded when it is first needed, and by one `import()`: in Node.js 20 a second one,
 * begun while the first is under way, may get CommonJS packages whose exports are not there yet.
 */
export function loadOnce<Module>(load: () => Promise<Module>): () => Promise<Module> {
  let loading: Promise<Module> | undefined;
  return () => {
    loading ??= load();
    return loading;
  };
}
