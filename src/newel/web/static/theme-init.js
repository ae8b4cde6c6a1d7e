(()=>{try{let e=JSON.parse(localStorage.getItem("newel:theme"));(e==="light"||e==="dark")&&(document.documentElement.dataset.theme=e)}catch{}})();
