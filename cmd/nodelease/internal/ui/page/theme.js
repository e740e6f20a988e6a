// Light or dark: the system's setting, unless the user chose otherwise here.
// Runs before the first paint.
const dark = matchMedia('(prefers-color-scheme: dark)')

function applyTheme() {
  const system = dark.matches ? 'dark' : 'light'
  document.documentElement.dataset.theme = localStorage.getItem('theme') ?? system
  document.dispatchEvent(new Event('themed'))
}

// toggleTheme flips it. Back at the system's setting, the choice is forgotten.
function toggleTheme() {
  const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'
  if (next === (dark.matches ? 'dark' : 'light')) localStorage.removeItem('theme')
  else localStorage.setItem('theme', next)
  applyTheme()
}

dark.addEventListener('change', applyTheme)
applyTheme()
