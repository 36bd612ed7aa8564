/** Runs the tests of the Heat plug-in's logic. Neither Heat nor a master is needed. */
import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { testWhere } from '../helpers/needs.ts';

const directory = fileURLToPath(new URL('../../clients/heat/tests', import.meta.url));
const hasPython = spawnSync('python3', ['--version']).status === 0;
const step = testWhere(hasPython, 'the package python3');

step('the logic of the Heat plug-in passes its own tests', async (t) => {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' };
  const options = { cwd: directory, env };
  const { stderr } = await promisify(execFile)('python3', ['-m', 'unittest', '-v'], options);
  t.regex(stderr, /Ran 18 tests/);
});
